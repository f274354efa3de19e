"""Files as their authors lay them out, read without trust: one format a module."""

from wellposed.data.readers import cifar
from wellposed.data.readers._aan import read_pairs
from wellposed.data.readers._acl_imdb import digest_of_reviews, read_reviews
from wellposed.data.readers._idx import read_idx
from wellposed.data.readers._pathfinder_release import read_release

__all__ = ["cifar", "digest_of_reviews", "read_idx", "read_pairs", "read_release", "read_reviews"]
