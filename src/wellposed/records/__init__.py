"""What a result is: claims beside what the paper says, data, and where they come from; one JSON file a result."""

from wellposed.records._provenance import provenance
from wellposed.records._record import Claim, Record, load_record, save_record

__all__ = ["Claim", "Record", "load_record", "provenance", "save_record"]
