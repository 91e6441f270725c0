"""Arrays as datasets, without a network. Run: python -m unittest discover -s python/tests"""

import json
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from dcnr import DcnrError  # noqa: E402
from dcnr._datasets import Column, column_of, manifest_of, sha256, values_of  # noqa: E402


class Datasets(unittest.TestCase):
    def test_lists_become_little_endian_floats_and_labels_whole_numbers(self) -> None:
        self.assertEqual(column_of("inputs", [[1, 2], [3, 4]]), Column("float32", (2,), 2, struct.pack("<4f", 1, 2, 3, 4)))
        self.assertEqual(column_of("labels", [1, 0]), Column("int32", (), 2, struct.pack("<2i", 1, 0)))

    def test_texts_are_classes_in_the_order_of_their_names(self) -> None:
        column = column_of("labels", ["b", "a", "b"])
        self.assertEqual((column.classes, column.content), (["a", "b"], struct.pack("<3i", 1, 0, 1)))

    def test_samples_of_different_shapes_are_refused_by_number(self) -> None:
        with self.assertRaisesRegex(DcnrError, r"inputs: sample 1 has the shape \(1,\)"):
            column_of("inputs", [[1, 2], [3]])

    def test_shards_hold_whole_samples_and_all_of_them(self) -> None:
        stored = []
        values = [[float(index)] * 1024 for index in range(5000)]
        manifest = json.loads(manifest_of({"inputs": column_of("inputs", values)}, 0, 0, stored.append))
        shards = manifest["fields"][0]["shards"]
        self.assertEqual([shard["count"] for shard in shards], [2048, 2048, 904])
        self.assertEqual([shard["hash"] for shard in shards], [sha256(content) for content in stored])
        self.assertEqual(b"".join(stored), column_of("inputs", values).content)

    def test_fields_must_have_as_many_samples(self) -> None:
        columns = {"inputs": column_of("inputs", [[1.0]]), "labels": column_of("labels", [1, 2])}
        with self.assertRaisesRegex(DcnrError, r"inputs \(1\), labels \(2\) differ"):
            manifest_of(columns, 0, 0, lambda _: None)

    def test_tensors_come_back_as_nested_lists(self) -> None:
        tensor = {"dtype": "DATA_TYPE_INT32", "shape": [2, 3], "data": "AQAAAAIAAAADAAAABAAAAAUAAAAGAAAA"}
        self.assertEqual(values_of(tensor), [[1, 2, 3], [4, 5, 6]])

    def test_numpy_arrays_keep_their_type_or_get_the_nearest(self) -> None:
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not installed")
        array = numpy.arange(6, dtype=numpy.float64).reshape(3, 2)
        self.assertEqual(column_of("inputs", array), Column("float32", (2,), 3, struct.pack("<6f", *range(6))))
        self.assertEqual(column_of("labels", numpy.array([3, 1])), column_of("labels", [3, 1]))
        self.assertEqual(column_of("labels", numpy.array([2**40])).dtype, "int64")
        turned = numpy.asfortranarray(array)
        self.assertEqual(column_of("inputs", turned).content, column_of("inputs", array).content)
        self.assertEqual(column_of("inputs", numpy.array([[1, 2]], dtype=">i4")).content, struct.pack("<2i", 1, 2))


if __name__ == "__main__":
    unittest.main()
