"""Where the data sets are published, and the checksums their publishers and their most used readers give for them."""

from __future__ import annotations

from wellposed.data.download._fetch import Download

# https://www.cs.toronto.edu/~kriz/cifar.html
CIFAR10 = Download(
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    file="cifar-10-python.tar.gz",
    checksum="md5:c58f30108f718f92721af3b95e74349a",
    size=170_498_071,
)
CIFAR10_FILES = {
    "cifar-10-batches-py/data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "cifar-10-batches-py/data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "cifar-10-batches-py/data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "cifar-10-batches-py/data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "cifar-10-batches-py/data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "cifar-10-batches-py/test_batch": "md5:40351d587109b95175f43aff81a1287e",
}

# https://ai.stanford.edu/~amaas/data/sentiment/
IMDB = Download(
    url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    file="aclImdb_v1.tar.gz",
    checksum="md5:7c2ac02c03563afcf9b574c7e56c153a",
    size=84_125_825,
)


def _mnist(file: str, md5: str, size: int) -> Download:
    # The host of http://yann.lecun.com/exdb/mnist refuses most visitors; this is the mirror that torchvision uses.
    return Download(f"https://ossci-datasets.s3.amazonaws.com/mnist/{file}", file, f"md5:{md5}", size)


MNIST = (
    _mnist("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 9_912_422),
    _mnist("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 28_881),
    _mnist("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1_648_877),
    _mnist("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 4_542),
)
MNIST_FILES = {
    "train-images-idx3-ubyte": "md5:6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "md5:a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "md5:2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "md5:27ae3e4e09519cfbb04c329615203637",
}

# https://github.com/google-research/long-range-arena: about 7.7 GiB, a tar whatever its name says, 18.6 GB unpacked.
# No checksum is published, so none is claimed: the one that is found is written beside the file. The address has been
# reported to answer 403; the files can then only come from someone who has them.
LONG_RANGE_ARENA = Download(
    url="https://storage.googleapis.com/long-range-arena/lra_release.gz",
    file="lra_release.gz",
    checksum=None,
    size=None,
    unpacked=32 * 2**30,
)
