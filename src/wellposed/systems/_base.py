"""What every linear time-invariant system can do, whatever the structure of its state matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypeVar, overload

import numpy as np
import torch
from jaxtyping import Complex, Shaped
from torch import Tensor

from wellposed._checks import as_tensor as as_numbers
from wellposed._checks import finite, one_of, positive_int
from wellposed.errors import (
    ArgumentError,
    FrozenError,
    IllConditionedError,
    NotRealError,
    ShapeError,
    TimeDomainError,
    UnknownNameError,
)
from wellposed.systems._parts import as_tensor, fitted_parts, largest_part
from wellposed.systems._resolvent import Resolvent, norm
from wellposed.systems._simulate import markov_parameters, simulate

if TYPE_CHECKING:  # these build on this file
    from wellposed.linalg import Diagonalization
    from wellposed.systems._dense import DenseSystem
    from wellposed.systems._diagonal import DiagonalSystem

Convention = Literal["usual", "delayed"]
Method = Literal["bilinear", "zoh"]
Other = TypeVar("Other", bound="System")

_CHUNK = 1 << 21  # numbers held at once while a transfer function is evaluated


class System(ABC):
    """A linear time-invariant system ``x' = A x + B u, y = C x + D u`` (or its discrete twin, where ``dt`` is set).

    ``B``, ``C`` and ``D`` have shapes ``(*batch, n, m)``, ``(*batch, p, n)`` and ``(*batch, p, m)``. A system given
    vectors ``B`` and ``C`` is single-input, single-output, and its responses carry no ``p`` and ``m`` axes.

    A system does not change after it is made: ``replace`` makes another. The tensors themselves are not copied, neither
    by a constructor nor by ``replace``: one that is changed in place changes every system that holds it.
    """

    B: Shaped[Tensor, "*batch n m"]
    C: Shaped[Tensor, "*batch p n"]
    D: Shaped[Tensor, "*batch p m"]
    dt: Tensor | None
    """``None`` for a continuous system; otherwise the time step, one number or one for every system of the batch."""
    siso: bool

    _state: tuple[str, ...] = ()
    """Names of the tensors that make up A. The constructor takes each of them, and B, C, D and dt, by its name."""

    def _set(self, state: dict[str, tuple[Tensor, int]], B: Any, C: Any, D: Any, dt: Any, **marks: Any) -> None:
        """Check and store everything; ``state`` maps a name to its tensor and how many of its axes are not batch.

        ``marks`` are attributes of the structure that are no tensors of ``A``.
        """
        parts, siso = fitted_parts(state, B, C, D)
        vars(self).update(parts, siso=siso, **marks)
        vars(self)["dt"] = None if dt is None else self._time_step(dt)  # last: it must fit what stands there

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        part = name if name in self._replaceable() else "B"
        raise FrozenError(
            f"{name} cannot be assigned, a system does not change after it is made: "
            f"system.replace({part}=...) makes another"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenError(f"{name} cannot be deleted, a system does not change after it is made")

    def _time_step(self, dt: Any) -> Tensor:
        step = as_tensor(dt, "dt")
        if step.is_complex():
            raise TimeDomainError(f"dt must be real, got {step.reshape(-1)[0].item()}")
        step = step.to(self.D.device, self.D.real.dtype)
        if bool((step <= 0).any()):
            raise TimeDomainError(f"dt must be positive, got {step.min().item():g}")
        try:
            step.expand(self.batch_shape)
        except RuntimeError:
            raise ShapeError(f"dt has shape {tuple(step.shape)}, the batch {tuple(self.batch_shape)}") from None
        return step

    # What a structure provides ----------------------------------------------------------------------------------

    @abstractmethod
    def poles(self) -> Complex[Tensor, "*batch n"]:
        """The eigenvalues of ``A``."""

    @abstractmethod
    def to_dense(self) -> DenseSystem:
        """The same system with ``A`` written out."""

    @abstractmethod
    def discretize(self, dt: Any, method: Method = "bilinear") -> System:
        """The discrete system with step ``dt`` (a number, or one for every system of the batch)."""

    @abstractmethod
    def _resolvent_form(self, s: Complex[Tensor, " k"]) -> Complex[Tensor, "*batch k p m"]:
        """``C (sI - A)^-1 B``."""

    @abstractmethod
    def _resolvent(self) -> Resolvent:
        """``(sI - A)^-1`` for certified distances; asked of one system, in float64 on the CPU, without gradients.

        ``self.to_dense()._resolvent()`` is always right, and costs O(n^3) a frequency.
        """

    def _state_matrix(self) -> Shaped[Tensor, "*batch n *n"]:
        """``A``, for powers of it; of a diagonal matrix the diagonal."""
        return self.to_dense().A

    def _surely_stable(self) -> bool:
        """A sufficient test that needs no eigenvalues: those of a non-normal matrix may be computed on the wrong side.

        A contraction is stable in discrete time, a negative definite Hermitian part is enough in continuous time.
        """
        A = self.to_dense().A
        if self.is_discrete:
            return norm(A) < 1
        return bool(torch.linalg.eigvalsh(A / 2 + A.mH / 2)[-1] < 0)  # halves first: their sum is a float

    def _magnitude(self) -> float:
        """The largest entry of what makes up ``A``, from which a unit of time is chosen."""
        return max(largest_part(getattr(self, name)) for name in self._state)

    def _in_units(self: Other, unit: float) -> Other:
        """The same system with time counted in units of ``1 / unit``, a power of 4: ``A / unit``, part by part."""
        return self.replace(**{name: getattr(self, name) * (1 / unit) for name in self._state})

    # Sizes --------------------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of states."""
        return self.B.shape[-2]

    @property
    def inputs(self) -> int:
        """Number of inputs, ``m``."""
        return self.B.shape[-1]

    @property
    def outputs(self) -> int:
        """Number of outputs, ``p``."""
        return self.C.shape[-2]

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of the batch of systems; empty for one system."""
        return self.B.shape[:-2]

    @property
    def is_discrete(self) -> bool:
        """Whether the system steps through time instead of flowing."""
        return self.dt is not None

    def __repr__(self) -> str:
        kind = "SISO" if self.siso else f"{self.inputs} inputs, {self.outputs} outputs"
        batch = f", batch {tuple(self.batch_shape)}" if self.batch_shape else ""
        time = "continuous" if self.dt is None else f"dt = {self.dt.reshape(-1)[0].item():g}"
        return f"{type(self).__name__}(n = {self.n}, {kind}{batch}, {time}, {self.B.real.dtype})"

    # Others like it -------------------------------------------------------------------------------------------------

    def replace(self: Other, **parts: Any) -> Other:
        """Another system with some parts exchanged, checked as a constructor checks them; this one stays as it is.

        Parts are what the constructor takes, by name (``A`` or ``Lambda``, ``B``, ``C``, ``D``, ``dt``, ...). The rest
        is kept: the other tensors (not copied), conjugate pairs, and whether responses carry channel axes. In a system
        of one channel ``B`` and ``C`` may be given as vectors or as a column and a row.

        >>> from wellposed.systems import s4d
        >>> quiet = s4d(4).replace(B=s4d(4).B / 2)
        >>> bool(torch.allclose(quiet(1j), s4d(4)(1j) / 2))
        True
        """
        for name in parts:
            if name not in self._replaceable():
                raise UnknownNameError(f"part of a {type(self).__name__}", name, self._replaceable())
        new = type(self)(**(self._arguments() | parts))
        if self.siso and (new.inputs, new.outputs) != (1, 1):
            raise ShapeError(
                f"this system has one input and one output, not {new.inputs} and {new.outputs}: "
                f"give {type(self).__name__}(...) matrices B and C to have several"
            )
        return self._like(new)

    def _replaceable(self) -> tuple[str, ...]:
        return (*self._state, "B", "C", "D", "dt")

    def _arguments(self) -> dict[str, Any]:
        """What a constructor has to be given to make this system, but for its channels."""
        return {name: getattr(self, name) for name in self._replaceable()}

    def _marked(self: Other, **marks: Any) -> Other:
        """The same tensors under other marks (``siso`` and those of a structure)."""
        new = object.__new__(type(self))
        vars(new).update(vars(self) | marks)
        return new

    def _like(self, new: Other) -> Other:
        """``new``, shown to the user as one channel if this system is."""
        return new._marked(siso=self.siso)

    def _map(self: Other, f: Callable[[Tensor], Tensor], dt: Tensor | None) -> Other:
        """Apply ``f`` to every tensor, and take ``dt`` as the time step."""
        arguments = self._arguments() | {"dt": None}
        moved = {key: f(value) if isinstance(value, Tensor) else value for key, value in arguments.items()}
        return self._like(type(self)(**(moved | {"dt": dt})))

    def __getitem__(self: Other, index: Any) -> Other:
        """One system, or a smaller batch, out of a batch."""
        if not self.batch_shape:
            raise ShapeError("this is a single system, not a batch: there is nothing to index")
        return self._map(lambda t: t[index], None if self.dt is None else self.dt.expand(self.batch_shape)[index])

    def to(self: Other, *args: Any, **kwargs: Any) -> Other:
        """Move to another device or precision, as ``Tensor.to`` does; complex parts keep being complex."""

        def move(t: Tensor) -> Tensor:
            moved = t.real.to(*args, **kwargs)
            if moved.dtype.to_real() not in (torch.float32, torch.float64):
                raise ArgumentError(f"a system has float32 or float64 numbers, not {moved.dtype}")
            return t.to(device=moved.device, dtype=moved.dtype.to_complex()) if t.is_complex() else moved

        return self._map(move, None if self.dt is None else move(self.dt))

    def detach(self: Other) -> Other:
        """The same numbers without their gradient graph."""
        return self._map(lambda t: t.detach(), None if self.dt is None else self.dt.detach())

    # Responses ------------------------------------------------------------------------------------------------------

    def __call__(self, s: Any) -> Complex[Tensor, "..."]:
        """Transfer function ``G(s) = C (sI - A)^-1 B + D`` at a number or an array ``s``; infinite at a pole.

        The result has shape ``(*batch, *s.shape)`` for a SISO system, ``(*batch, *s.shape, p, m)`` otherwise. For a
        discrete system ``s`` is the variable ``z`` of the z-transform, and ``G`` that of the ``"delayed"`` convention.
        """
        wide = self.B.real.dtype.to_complex()
        s = finite(as_tensor(s, "s").to(self.B.device, wide), "s")
        flat = s.reshape(-1)
        size = max(1, _CHUNK // (self._cost() * max(1, self.batch_shape.numel())))
        parts = [self._resolvent_form(piece) for piece in flat.split(size)]
        G = torch.cat(parts, dim=-3) if parts else self._resolvent_form(flat)
        G = G + self.D[..., None, :, :]
        G = G.reshape(self.batch_shape + s.shape + G.shape[-2:])
        return G[..., 0, 0] if self.siso else G

    def _cost(self) -> int:
        return self.n * (self.inputs + self.outputs)

    def frequency_response(self, omega: Any) -> Complex[Tensor, "..."]:
        """``G(i omega)`` for a continuous system, ``G(exp(i omega dt))`` for a discrete one; see ``__call__``."""
        omega = as_tensor(omega, "omega")
        if omega.is_complex():
            raise ArgumentError("omega is a real frequency: for a complex point of the plane call sys(s)")
        omega = omega.to(self.B.device, self.B.real.dtype)
        if self.dt is None:
            return self(torch.complex(torch.zeros_like(omega), omega))
        if self.dt.numel() > 1:
            raise TimeDomainError("the systems of this batch have different dt: take one with sys[i]")
        return self(torch.exp(1j * omega * self.dt.reshape(())))

    def stability_margin(self) -> Tensor:
        """How far the poles stay from instability: ``-max Re`` (continuous) or ``1 - max |.|`` (discrete).

        Positive exactly where the system is asymptotically stable.
        """
        poles = self.poles()
        return -poles.real.amax(-1) if self.dt is None else 1 - poles.abs().amax(-1)

    def conjugate(self, V: Any) -> DenseSystem:
        """The same map from inputs to outputs in the coordinates ``V^-1 x``: ``(V^-1 A V, V^-1 B, C V, D)``."""
        return self.to_dense().conjugate(V)

    def in_eigenvectors(self, Lambda: Tensor, V: Tensor, V_inv: Tensor) -> DiagonalSystem:
        """The diagonal system ``(Lambda, V_inv B, C V, D)``, stored as conjugate pairs where it is real.

        It equals this one exactly if ``A = V diag(Lambda) V_inv``; nothing is checked. ``diagonalized`` does check.
        """
        from wellposed.systems._eigenvectors import in_eigenvectors

        return in_eigenvectors(self, Lambda, V, V_inv)

    def diagonalized(self, d: Diagonalization) -> DiagonalSystem:
        """The diagonal system ``(Lambda, V_inv B, C V, D)`` of a diagonalisation ``A + E = V diag(Lambda) V_inv``.

        ``d`` must be of the ``A`` of this system: in other coordinates its eigenvectors mean nothing. The result is
        this system with ``A + E`` in place of ``A``; real systems are stored as conjugate pairs.

        >>> from wellposed import ptd
        >>> from wellposed.systems import linf_distance, s4
        >>> system = s4(16, form="dense")
        >>> near = system.diagonalized(ptd(system.A, rel=0.1, stable=True))
        >>> round(linf_distance(system, near).value, 4)
        0.0329
        """
        from wellposed.systems._eigenvectors import diagonalized

        return diagonalized(self, d)

    def to_real(self) -> DenseSystem:
        """A real dense system with the same response; raises where real inputs give complex outputs."""
        return self.to_dense().to_real()

    def impulse_response(
        self, length: SupportsIndex, convention: Convention = "usual"
    ) -> Shaped[Tensor, "*batch length ..."]:
        """Response to a unit impulse at the first of ``length`` steps: the convolution kernel.

        ``"usual"`` (S4, S5): ``D + CB, CAB, CA^2B, ...``; ``"delayed"`` (the paper's appendix, and the habit of
        control theory): ``D, CB, CAB, ...``.
        """
        length = self._check_time(positive_int(length, "length"), convention)
        K = markov_parameters(self, length)
        K = torch.cat([torch.zeros_like(K[..., :1, :, :]), K[..., :-1, :, :]], -3) if convention == "delayed" else K
        K = torch.cat([K[..., :1, :, :] + self.D[..., None, :, :], K[..., 1:, :, :]], dim=-3)
        return K[..., 0, 0] if self.siso else K

    @overload
    def simulate(
        self, u: Any, state: Any = None, *, convention: Convention = "usual", return_state: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def simulate(
        self, u: Any, state: Any = None, *, convention: Convention = "usual", return_state: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def simulate(
        self, u: Any, state: Any = None, *, convention: Convention = "usual", return_state: bool
    ) -> Tensor | tuple[Tensor, Tensor]: ...

    def simulate(
        self, u: Any, state: Any = None, *, convention: Convention = "usual", return_state: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Outputs of a discrete system for the inputs ``u``, from ``state`` (zero if not given).

        ``u`` is ``(*batch, length)`` for a SISO system, ``(*batch, length, m)`` otherwise; batch axes broadcast
        against those of the system. ``"usual"``: ``x_t = A x_{t-1} + B u_t``, ``"delayed"`` (the paper):
        ``x_t = A x_{t-1} + B u_{t-1}``; both read ``y_t = C x_t + D u_t``. With ``return_state`` the state to continue
        from comes second: simulating in pieces equals simulating at once.
        """
        whole = as_numbers(u, "u")
        u = as_tensor(whole if whole.is_floating_point() or whole.is_complex() else whole.to(self.B.real.dtype), "u")
        u = u.to(self.B.device)
        u = u[..., None] if self.siso else u
        if u.ndim < 2 or u.shape[-1] != self.inputs:
            raise ShapeError(f"u has shape {tuple(u.shape)}; it must end in (length, {self.inputs}) for {self!r}")
        self._check_time(positive_int(u.shape[-2], "the length of u"), convention)
        if u.is_complex() and not self._takes_complex():
            raise NotRealError("a system stored as conjugate pairs takes real inputs: call to_full() first")
        if state is not None:
            state = as_tensor(state, "state").to(self.B.device)
            if state.shape[-1:] != (self.n_stored,):
                raise ShapeError(f"state has shape {tuple(state.shape)}, the system has {self.n_stored} stored states")
        self._check_batch(u.shape[:-2], () if state is None else state.shape[:-1])
        y, end = simulate(self, u, state, delayed=convention == "delayed")
        y = y[..., 0] if self.siso else y
        return (y, end) if return_state else y

    @property
    def n_stored(self) -> int:
        """Length of the state vector that ``simulate`` takes and returns."""
        return self.n

    def _takes_complex(self) -> bool:
        return True

    def _reading(self) -> Tensor:
        """The ``C`` that reads the stored states; the real part of ``C x`` where inputs may not be complex."""
        return self.C

    def _check_batch(self, inputs: tuple[int, ...], states: tuple[int, ...]) -> None:
        try:
            np.broadcast_shapes(self.batch_shape, inputs, states)  # torch's own loads sympy, which takes a second
        except ValueError:
            raise ShapeError(
                f"the batches do not fit together: {tuple(self.batch_shape)} systems, "
                f"{tuple(inputs)} inputs, {tuple(states)} states"
            ) from None

    def _check_time(self, length: int, convention: str) -> int:
        if self.dt is None:
            raise TimeDomainError("this system is continuous: call discretize(dt) first")
        one_of(convention, "convention", ("usual", "delayed"))
        return length

    def _check_discretize(self, dt: Any, method: str) -> Tensor:
        if self.dt is not None:
            raise TimeDomainError(f"this system is discrete already, with dt = {self.dt.reshape(-1)[0].item():g}")
        one_of(method, "method", ("bilinear", "zoh"))
        return self._time_step(dt)


def check_bilinear(regular: Tensor, dt: Tensor, whose: str, also: str = "") -> None:
    """Refuse steps for which ``I - dt/2 A`` is singular; ``regular`` says for each system that it is not."""
    if not bool(regular.all()):
        step = dt.expand(regular.shape)[~regular].reshape(-1)[0].item()
        raise IllConditionedError(
            f"dt = {step:g}: the bilinear rule divides by 1 - dt/2 lambda, and 2/dt = {2 / step:g} is an eigenvalue "
            f"of {whose}: take another step, or method='zoh'{also}"
        )


def same_dtype(*tensors: Tensor) -> tuple[Tensor, "..."]:
    """Promote to the common dtype, which einsum and matmul ask for."""
    dtype = tensors[0].dtype
    for t in tensors[1:]:
        dtype = torch.promote_types(dtype, t.dtype)
    return tuple(t.to(dtype) for t in tensors)
