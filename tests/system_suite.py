"""Properties shared by all linear systems: each structure inherits them and is compared with a dense twin."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from covering import covering
from dense_twin import Twin, assert_close
from wellposed.errors import FrozenError, NotRealError
from wellposed.systems import DiagonalSystem, System, linf_distance

METHODS = ("bilinear", "zoh")
CONVENTIONS = ("usual", "delayed")
# One step, primes, powers of two and their neighbours: the edges of every chunk simulate could cut.
LENGTHS = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 64, 65, 127, 257]) | st.integers(1, 150)
# Values are compared relative to the largest entry. The systems below have condition numbers of at most a few hundred.
RTOL = 1e-10


@dataclass(frozen=True)
class Case:
    """One random system and how it is driven."""

    n: int
    m: int
    p: int
    siso: bool
    batch: tuple[int, ...]
    real: bool
    """Whether real inputs give real outputs."""
    extra_inputs: bool
    """Whether the inputs have a batch axis that the systems do not have."""
    seed: int

    def channels(self, array: Any) -> Any:
        """Drop the last two axes where the system is single-input, single-output."""
        return array[..., 0, 0] if self.siso else array


@st.composite
def cases(draw: st.DrawFn, max_n: int = 12, max_channels: int = 3) -> Case:
    siso = draw(st.booleans())
    return Case(
        n=draw(st.integers(1, max_n)),
        m=1 if siso else draw(st.integers(1, max_channels)),
        p=1 if siso else draw(st.integers(1, max_channels)),
        siso=siso,
        batch=draw(st.sampled_from([(), (), (1,), (3,), (2, 3)])),
        real=draw(st.booleans()),
        extra_inputs=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def normal(rng: np.random.Generator, *shape: int, real: bool = False) -> Tensor:
    x = rng.normal(size=shape)
    return torch.from_numpy(x if real else (x + 1j * rng.normal(size=shape)) / 2**0.5)


def mirrored(half: Tensor, middle: Tensor, axis: int) -> Tensor:
    """Entries, their conjugates, and real ones in between, along one axis: what a real system looks like."""
    return torch.cat([half, middle.to(half.dtype), half.conj().resolve_conj()], dim=axis)


class SystemSuite:
    """Inherit, say how to draw parameters and how to build the system and its dense twin from them."""

    takes_complex = True

    def parameters(self, case: Case, rng: np.random.Generator) -> dict[str, Tensor]:
        """The tensors that define a random stable system; ``B``, ``C`` and ``D`` as matrices."""
        raise NotImplementedError

    def build(self, parameters: dict[str, Tensor], dt: Any = None) -> System:
        """The system under test."""
        raise NotImplementedError

    def dense(self, parameters: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``(A, B, C, D)`` written out, differentiable in the parameters."""
        raise NotImplementedError

    def dense_state(self, parameters: dict[str, Tensor], state: Tensor) -> Tensor:
        """The state of the dense twin that a stored state stands for."""
        return state

    def stored_state(self, system: System, case: Case, rng: np.random.Generator) -> Tensor:
        return normal(rng, *case.batch, system.n_stored, real=case.real)

    # What the properties are made of --------------------------------------------------------------------------------

    def draw(self, case: Case) -> tuple[dict[str, Tensor], System, Twin, np.random.Generator]:
        rng = np.random.default_rng(case.seed)
        parameters = self.parameters(case, rng)
        return parameters, self.system(parameters, case), self.twin(parameters), rng

    def system(self, parameters: dict[str, Tensor], case: Case, dt: Any = None) -> System:
        if case.siso:
            B, C, D = parameters["B"][..., 0], parameters["C"][..., 0, :], parameters["D"][..., 0, 0]
            parameters = parameters | {"B": B, "C": C, "D": D}
        return self.build(parameters, dt)

    def twin(self, parameters: dict[str, Tensor]) -> Twin:
        return Twin(*(t.detach().resolve_conj().numpy() for t in self.dense(parameters)))

    def inputs(self, case: Case, length: int, rng: np.random.Generator) -> Tensor:
        batch = (2, *case.batch) if case.extra_inputs else case.batch
        return normal(rng, *batch, length, case.m, real=case.real or not self.takes_complex)

    def step(self, case: Case, rng: np.random.Generator) -> Tensor:
        """One time step, or one for every system of the batch."""
        return torch.from_numpy(np.asarray(rng.uniform(0.05, 0.5, size=case.batch if case.extra_inputs else ())))

    # Responses ------------------------------------------------------------------------------------------------------

    @given(cases(), st.sampled_from([(), (5,), (2, 3)]))
    def test_transfer_function_is_the_resolvent_form(self, case: Case, shape: tuple[int, ...]):
        _, system, twin, rng = self.draw(case)
        s = rng.uniform(0, 3, size=shape) + 1j * rng.normal(size=shape) * 5
        assert_close(system(s), case.channels(twin.transfer(s)), RTOL)
        omega = s.imag
        assert_close(system.frequency_response(omega), case.channels(twin.transfer(1j * omega)), RTOL)
        assert (system.n, system.inputs, system.outputs, system.batch_shape) == (case.n, case.m, case.p, case.batch)

    @given(cases())
    def test_poles_are_eigenvalues(self, case: Case):
        _, system, twin, _ = self.draw(case)
        poles = system.poles().numpy()
        # Eigenvalues may be ill-conditioned, their backward error is not: A - pole I is singular to rounding.
        pencil = twin.A[..., None, :, :] - poles[..., None, None] * np.eye(case.n)
        scale = np.linalg.norm(twin.A, 2, axis=(-2, -1))[..., None]
        assert np.all(np.linalg.svd(pencil, compute_uv=False)[..., -1] <= 1e-13 * case.n * scale)
        assert_close(poles.sum(-1), np.trace(twin.A, axis1=-2, axis2=-1), 1e-12 * case.n)
        assert_close(system.stability_margin(), -np.real(poles).max(-1), 1e-12)
        assert bool((system.stability_margin() > 0).all())

    @given(cases())
    def test_conjugation_changes_the_matrices_and_not_the_response(self, case: Case):
        _, system, twin, rng = self.draw(case)
        V = np.linalg.qr(normal(rng, case.n, case.n).numpy())[0] * rng.uniform(0.5, 2, size=case.n)
        moved = system.conjugate(V)
        assert_close(moved.A, np.linalg.solve(V, twin.A @ V), RTOL)
        s = rng.uniform(0, 3, size=4) + 1j * rng.normal(size=4) * 5
        assert_close(moved(s), case.channels(twin.transfer(s)), RTOL)

    # The resolvent --------------------------------------------------------------------------------------------------

    @given(cases(), st.booleans())
    def test_resolvent_solves_and_its_norm_is_bounded(self, case: Case, discrete: bool):
        case = dataclasses.replace(case, batch=())
        _, system, twin, rng = self.draw(case)
        if discrete:
            system, twin = system.discretize(0.1), twin.bilinear(0.1)
        R, angle = system._resolvent(), rng.uniform(-3, 3, size=5)
        points = np.exp(1j * angle) if discrete else 5j * angle
        s = torch.from_numpy(points)
        (right, left), count = R.solvers(s), len(s)
        response = twin._replace(D=0 * twin.D).transfer(points)
        assert_close(R.C @ right(R.B.expand(count, -1, -1)), response, RTOL)
        assert_close(left(R.C.expand(count, -1, -1)) @ R.B, response, RTOL)
        pencil = points[:, None, None] * np.eye(case.n) - twin.A
        exact = 1 / np.linalg.svd(pencil, compute_uv=False)[:, -1]
        assert np.all(R.norm(s).numpy() >= exact * (1 - 1e-10))  # a bound too small is a certificate that lies
        assert R.norm_A() >= np.linalg.norm(twin.A, 2) * (1 - 1e-12)
        assert R.cost() > 0
        assert R.peaks().dtype == torch.complex128

    @settings(max_examples=6)
    @given(cases(max_n=6), st.booleans())
    def test_distance_is_the_largest_difference(self, case: Case, discrete: bool):
        case = dataclasses.replace(case, batch=())
        _, system, twin, _ = self.draw(case)
        dt = 0.1 if discrete else None
        if discrete:
            system, twin = system.discretize(0.1), twin.bilinear(0.1)
        silent = DiagonalSystem([-0.5], np.zeros((1, case.m)), np.zeros((case.p, 1)), dt=dt)
        found = linf_distance(system, silent)
        grid = np.linspace(-np.pi, np.pi, 2001) / (dt or 0.1)
        points = np.exp(1j * grid * dt) if dt else 1j * grid
        assert np.linalg.norm(twin.transfer(points), 2, axis=(-2, -1)).max() <= found.upper * (1 + 1e-9)
        if np.isfinite(found.frequency):
            at = np.exp(1j * found.frequency * dt) if dt else 1j * found.frequency
            assert np.linalg.norm(twin.transfer(at), 2) == pytest.approx(found.value, rel=1e-8)
        same = linf_distance(system, system.to_dense())
        assert same.upper <= 1e-10 * max(found.value, 1e-300)

    # Discrete time --------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("method", METHODS)
    @given(case=cases())
    def test_discretization_is_the_formula_of_the_paper(self, method: Any, case: Case):
        _, system, twin, rng = self.draw(case)
        dt = self.step(case, rng)
        discrete, expected = system.discretize(dt, method), twin.discretize(dt.numpy(), method)
        dense = discrete.to_dense()
        for actual, wanted in zip((dense.A, dense.B, dense.C, dense.D), expected, strict=True):
            assert_close(actual, wanted, RTOL)
        z = np.exp(1j * rng.uniform(-np.pi, np.pi, size=4))
        assert_close(discrete(z), case.channels(expected.transfer(z)), RTOL)
        radius = np.abs(np.linalg.eigvals(expected.A)).max(-1)
        # The radius of a non-normal matrix is known to about sqrt(eps), if two of its eigenvalues nearly coincide.
        assert_close(discrete.stability_margin(), 1 - radius, 1e-6)
        if dt.numel() == 1:
            omega = rng.uniform(-10, 10, size=3)
            z = np.exp(1j * omega * dt.numpy())
            assert_close(discrete.frequency_response(omega), case.channels(expected.transfer(z.reshape(3))), RTOL)

    @pytest.mark.parametrize("method", METHODS)
    @given(case=cases(), length=LENGTHS, convention=st.sampled_from(CONVENTIONS), from_state=st.booleans())
    def test_simulation_is_the_recurrence(
        self, method: Any, case: Case, length: int, convention: Any, from_state: bool
    ):
        parameters, system, twin, rng = self.draw(case)
        dt = self.step(case, rng)
        discrete, expected = system.discretize(dt, method), twin.discretize(dt.numpy(), method)
        u, state = self.inputs(case, length, rng), self.stored_state(system, case, rng)
        start = self.dense_state(parameters, state if from_state else torch.zeros_like(state))
        y, end = expected.simulate(u.numpy(), start.resolve_conj().numpy(), convention)
        actual, stored = discrete.simulate(
            u[..., 0] if case.siso else u, state if from_state else None, convention=convention, return_state=True
        )
        assert_close(actual, y[..., 0] if case.siso else y, RTOL)
        assert_close(self.dense_state(parameters, stored), end, RTOL)

    @pytest.mark.parametrize("convention", CONVENTIONS)
    @given(case=cases(), length=LENGTHS, method=st.sampled_from(METHODS))
    def test_impulse_response_is_the_kernel(self, convention: Any, case: Case, length: int, method: Any):
        _, system, twin, rng = self.draw(case)
        dt = self.step(case, rng)
        discrete, expected = system.discretize(dt, method), twin.discretize(dt.numpy(), method)
        K = discrete.impulse_response(length, convention)
        assert_close(K, case.channels(expected.markov(length, convention)), RTOL)
        impulse = torch.zeros(case.m, *(1,) * len(case.batch), length, case.m, dtype=torch.float64)
        impulse[..., 0, :] = torch.eye(case.m).reshape(case.m, *(1,) * len(case.batch), case.m)
        y = discrete.simulate(impulse[..., 0] if case.siso else impulse, convention=convention)
        y = (y[..., None] if case.siso else y).movedim(0, -1)  # one column for every input
        assert_close(case.channels(y), case.channels(expected.markov(length, convention)), RTOL)

    @given(cases(max_n=6), st.integers(1, 40))
    def test_zero_order_hold_samples_the_flow(self, case: Case, length: int):
        _, system, twin, rng = self.draw(case)
        dt = rng.uniform(0.05, 0.5)
        times = dt * np.arange(length)
        first = twin.zoh(dt).B  # what one step of unit input leaves behind
        # From there the state flows freely: x(t) = exp(A t) x(0), no powers of anything.
        flows = np.stack([twin.zoh(t).A for t in times], axis=-3)
        K = twin.C[..., None, :, :] @ flows @ first[..., None, :, :]
        K[..., 0, :, :] += twin.D
        assert_close(system.discretize(dt, "zoh").impulse_response(length), case.channels(K), RTOL)

    @given(cases(), LENGTHS, st.sampled_from(CONVENTIONS), st.data())
    def test_pieces_make_the_whole(self, case: Case, length: int, convention: Any, data: st.DataObject):
        parameters, system, twin, rng = self.draw(case)
        dt = self.step(case, rng)
        u, state = self.inputs(case, length, rng), self.stored_state(system, case, rng)
        whole, _ = twin.bilinear(dt.numpy()).simulate(
            u.numpy(), self.dense_state(parameters, state).resolve_conj().numpy(), convention
        )
        cuts = sorted(data.draw(st.sets(st.integers(1, length - 1), max_size=3))) if length > 1 else []
        discrete, pieces = system.discretize(dt), []
        for piece in u.tensor_split(cuts, dim=-2):
            piece = piece[..., 0] if case.siso else piece
            y, state = discrete.simulate(piece, state, convention=convention, return_state=True)
            pieces.append(y)
        y = torch.cat(pieces, dim=-1 if case.siso else -2)
        assert_close(y, whole[..., 0] if case.siso else whole, RTOL)

    def test_long_simulation_keeps_its_digits(self):
        case = Case(n=8, m=2, p=2, siso=False, batch=(), real=True, extra_inputs=False, seed=7)
        _, system, twin, rng = self.draw(case)
        u = self.inputs(case, 20_011, rng)
        y, _ = twin.bilinear(1e-2).simulate(u.numpy(), np.zeros(case.n), "usual")
        assert_close(system.discretize(1e-2).simulate(u), y, RTOL)

    # Gradients ------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("method", METHODS)
    @settings(max_examples=12)
    @given(case=cases(max_n=6), length=st.integers(1, 30), convention=st.sampled_from(CONVENTIONS))
    def test_gradients_of_simulation(self, method: Any, case: Case, length: int, convention: Any):
        parameters, system, _, rng = self.draw(case)
        leaves = parameters | {"u": self.inputs(case, length, rng), "dt": self.step(case, rng)}
        leaves["state"] = self.stored_state(system, case, rng)

        def structured(p: dict[str, Tensor]) -> Tensor:
            u = p["u"][..., 0] if case.siso else p["u"]
            return self.system(p, case).discretize(p["dt"], method).simulate(u, p["state"], convention=convention)

        def loop(p: dict[str, Tensor]) -> Tensor:
            A, B, C, D = torch_discretize(*self.dense(p), p["dt"], method)
            x, y = self.dense_state(p, p["state"]).to(A.dtype)[..., None], []
            for t in range(length):
                u_t = p["u"][..., t, :, None].to(A.dtype)
                ahead = A @ x + B @ u_t
                y.append((C @ (ahead if convention == "usual" else x) + D.to(A.dtype) @ u_t)[..., 0])
                x = ahead
            return torch.stack(torch.broadcast_tensors(*y), dim=-2)

        assert_same_gradients(structured, loop, leaves)

    @settings(max_examples=12)
    @given(cases(max_n=8))
    def test_gradients_of_the_transfer_function(self, case: Case):
        parameters, _, _, rng = self.draw(case)
        s = torch.from_numpy(rng.uniform(0, 3, size=4) + 1j * rng.normal(size=4) * 5)

        def solved(p: dict[str, Tensor]) -> Tensor:
            A, B, C, D = (t.to(torch.complex128) for t in self.dense(p))
            pencil = s[:, None, None] * torch.eye(case.n) - A[..., None, :, :]
            return C[..., None, :, :] @ torch.linalg.solve(pencil, B[..., None, :, :]) + D[..., None, :, :]

        assert_same_gradients(lambda p: self.system(p, case)(s), solved, parameters)

    @pytest.mark.parametrize(("method", "real"), covering(METHODS, [True, False], every=2))
    def test_gradients_are_those_of_finite_differences(self, method: Any, real: bool):
        case = Case(n=3, m=2, p=2, siso=False, batch=(), real=real, extra_inputs=False, seed=3)
        parameters, _, _, rng = self.draw(case)
        leaves = parameters | {"u": self.inputs(case, 5, rng), "dt": self.step(case, rng)}
        names = list(leaves)

        def outputs(*values: Tensor) -> Tensor:
            p = dict(zip(names, values, strict=True))
            return self.system(p, case).discretize(p["dt"], method).simulate(p["u"])

        assert torch.autograd.gradcheck(outputs, [leaves[k].clone().requires_grad_() for k in names])

    # Other faces of the same system ---------------------------------------------------------------------------------

    @given(cases(), st.booleans())
    def test_real_coordinates_exist_exactly_if_the_response_is_real(self, case: Case, discrete: bool):
        _, system, twin, rng = self.draw(case)
        for index in np.ndindex(case.batch):
            one, expected = system[index] if index else system, Twin(*(M[index] for M in twin))
            if discrete:
                one, expected = one.discretize(0.1), expected.bilinear(0.1)
            if not (case.real or not self.takes_complex):
                with pytest.raises(NotRealError, match=r"e[+-]\d\d|above the real axis"):
                    one.to_real()
                continue
            real = one.to_real()
            assert not any(t.is_complex() for t in (real.A, real.B, real.C, real.D))
            assert real.n == case.n
            s = rng.uniform(1.5, 3, size=4) * np.exp(1j * rng.uniform(-1.5, 1.5, size=4))
            assert_close(real(s), case.channels(expected.transfer(s)), RTOL)

    @given(cases())
    def test_an_item_of_a_batch_is_a_system(self, case: Case):
        _, system, twin, rng = self.draw(case)
        dt = self.step(case, rng)
        discrete, u = system.discretize(dt), self.inputs(case, 7, rng)
        for index in np.ndindex(case.batch):
            if not index:
                continue
            one = Twin(*(M[index] for M in twin))
            s = rng.uniform(0, 3, size=3) + 1j * rng.normal(size=3)
            assert_close(system[index](s), case.channels(one.transfer(s)), RTOL)
            own_dt = np.broadcast_to(dt.numpy(), case.batch)[index]
            one = one.bilinear(own_dt)
            omega = rng.normal(size=3)
            expected = case.channels(one.transfer(np.exp(1j * omega * own_dt)))
            assert_close(discrete[index].frequency_response(omega), expected, RTOL)
            item = u[..., *index, :, :]
            y, _ = one.simulate(item.numpy(), np.zeros(case.n), "usual")
            actual = discrete[index].simulate(item[..., 0] if case.siso else item)
            assert_close(actual, y[..., 0] if case.siso else y, RTOL)

    @given(cases())
    def test_replacing_a_part_makes_another_system(self, case: Case):
        _, system, twin, rng = self.draw(case)
        z = 2 * np.exp(1j * rng.uniform(-np.pi, np.pi, size=3))
        for one, expected in ((system, twin), (system.discretize(0.1), twin.bilinear(0.1))):
            scaled = one.replace(B=2 * one.B, D=one.D - 1)
            wanted = expected._replace(B=2 * expected.B, D=expected.D - 1)
            assert_close(scaled(z), case.channels(wanted.transfer(z)), RTOL)
            assert_close(one(z), case.channels(expected.transfer(z)), RTOL)
            assert (type(scaled), scaled.siso, scaled.n) == (type(one), one.siso, case.n)
            assert scaled.C.data_ptr() == one.C.data_ptr()  # shared, not copied

    @given(cases())
    def test_nothing_is_assigned_to(self, case: Case):
        _, system, twin, _ = self.draw(case)
        for name in (*system._state, "B", "C", "D", "dt"):
            with pytest.raises(FrozenError, match=rf"{name} cannot be assigned.*system\.replace\({name}=\.\.\.\)"):
                setattr(system, name, torch.zeros(1))
        with pytest.raises(FrozenError, match="siso cannot be assigned"):
            system.siso = not case.siso
        with pytest.raises(FrozenError, match="B cannot be deleted"):
            del system.B
        for twice in (copy.copy(system), copy.deepcopy(system), pickle.loads(pickle.dumps(system))):
            assert_close(twice(3.0), case.channels(twin.transfer(3.0)), RTOL)

    @given(cases())
    def test_single_precision(self, case: Case):
        _, system, twin, rng = self.draw(case)
        small = system.to(torch.float32)
        s = rng.uniform(0.5, 3, size=3) + 1j * rng.normal(size=3)
        G = small(s)
        assert G.dtype == torch.complex64
        assert_close(G, case.channels(twin.transfer(s)), 1e-4)
        discrete, u = small.discretize(0.1), self.inputs(case, 9, rng)
        u = u.to(torch.complex64 if u.is_complex() else torch.float32)
        y = discrete.simulate(u[..., 0] if case.siso else u)
        assert y.dtype in (torch.float32, torch.complex64)
        expected, _ = twin.bilinear(0.1).simulate(u.numpy(), np.zeros(case.n), "usual")
        assert_close(y, expected[..., 0] if case.siso else expected, 1e-4)
        narrow, wide = system.discretize(0.1).to(torch.float32), discrete.to(torch.float64)
        assert narrow.dt is not None
        assert wide.dt is not None
        assert (narrow.dt.dtype, wide.dt.dtype) == (torch.float32, torch.float64)
        z = 2 * np.exp(1j * np.arange(6))
        assert wide(z).dtype == torch.complex128
        assert_close(wide(z), case.channels(twin.bilinear(0.1).transfer(z)), 1e-4)


def torch_discretize(
    A: Tensor, B: Tensor, C: Tensor, D: Tensor, dt: Tensor, method: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    A, B, C = (t.to(torch.promote_types(A.dtype, B.dtype)) for t in (A, B, C))
    h, n = dt[..., None, None], A.shape[-1]
    eye = torch.eye(n, dtype=A.dtype)
    if method == "bilinear":
        inverse = torch.linalg.inv(eye - h / 2 * A)
        return inverse @ (eye + h / 2 * A), h * inverse @ B, C, D
    block = torch.cat([torch.cat([A, B], -1), torch.zeros(*A.shape[:-2], B.shape[-1], n + B.shape[-1])], -2)
    E = taylor_exp(h * block)
    return E[..., :n, :n], E[..., :n, n:], C, D


def taylor_exp(M: Tensor) -> Tensor:
    """Twenty terms of the series at ``M / 2^8``, squared eight times: enough for norms up to 100."""
    eye = torch.eye(M.shape[-1], dtype=M.dtype)
    E = eye
    for k in range(20, 0, -1):
        E = eye + M / 2**8 @ E / k
    for _ in range(8):
        E = E @ E
    return E


def assert_same_gradients(
    f: Callable[[dict[str, Tensor]], Tensor], g: Callable[[dict[str, Tensor]], Tensor], leaves: dict[str, Tensor]
) -> None:
    """Gradients of the sum of squares of two functions with respect to every leaf agree to 1e-9."""
    gradients = []
    for function in (f, g):
        own = {key: t.detach().clone().requires_grad_() for key, t in leaves.items()}
        y = function(own)
        loss = (y * y.conj()).real.sum()
        found = torch.autograd.grad(loss, list(own.values()), allow_unused=True, materialize_grads=True)
        gradients.append(dict(zip(own, found, strict=True)))
    overall = max(largest(t) for t in gradients[1].values())
    for key, expected in gradients[1].items():
        error, size = largest(gradients[0][key] - expected), largest(expected)
        # A leaf may have a gradient of zero next to others of size 1, hence the second term.
        assert error <= 1e-9 * size + 1e-13 * overall, f"d/d{key}: error {error:.1e} of {size:.1e}"


def largest(t: Tensor) -> float:
    """Largest modulus of an entry; 0 for a tensor without any."""
    return t.abs().max().item() if t.numel() else 0.0
