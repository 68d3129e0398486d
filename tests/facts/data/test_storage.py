from __future__ import annotations

from perfdoctor.facts.data.storage import StorageFacts, storage_facts
from perfdoctor.model.missing import Missing

NFS = {"mount": "/data", "fs": "nfs4", "kind": "network", "open": 3}
ROOT = {"mount": "/", "fs": "ext4", "kind": "solid", "open": 1}


def test_the_mount_that_is_open_in_most_samples_counts():
    samples = [{"storage": [NFS]}] * 4 + [{"storage": [NFS, ROOT]}, {"storage": [ROOT]}, {}]
    assert storage_facts(samples) == StorageFacts("/data", "nfs4", "network", 5)


def test_too_few_samples_are_a_reason():
    few = Missing("too few open files were seen to locate the data")
    assert storage_facts([{"storage": [NFS]}] * 3) == few
    assert storage_facts([{"storage": ["broken", {**NFS, "open": 0}]}] * 9) == few
