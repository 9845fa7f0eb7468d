import pyarrow as pa

from audit_pipeline.corpus.bands import length_band


def test_bands_begin_where_they_say_and_words_stand_in_for_unknown_tokens() -> None:
    tokens = pa.array([0, 39, 40, 127, 128, 255, 256, 512, 1023, 1024, 2047, 2048, None], pa.int32())
    words = pa.array([999] * 12 + [41], pa.int32())
    assert length_band(tokens, words).to_pylist() == [
        "0-39", "0-39", "40-127", "40-127", "128-255", "128-255", "256-511", "512-1023", "512-1023",
        "1024-2047", "1024-2047", "2048+", "40-127",
    ]  # fmt: skip
