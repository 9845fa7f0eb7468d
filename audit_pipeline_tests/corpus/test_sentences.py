import pyarrow as pa
import pytest

from audit_pipeline.corpus.sentences import hold_out, repeated_header, split_sentences, stands_in

FIVE = [
    "Bears sleep in caves through the winter.",
    "Short one.",
    "Salmon swim up the river every autumn!",
    "Do wolves hunt in packs at night?",
    "Foxes dig their dens under old trees.",
]
TEXT = " ".join(FIVE)


def held_of(
    texts: list[str], which: str, *, documents: bool = True, headings: list[str | None] | None = None
) -> list[dict]:
    chunks = pa.table(
        {
            "chunk_id": [str(i) for i in range(len(texts))],
            "source": ["s"] * len(texts),
            "doc_id": ["d"] * len(texts),
            "heading": pa.array(headings or [None] * len(texts), pa.string()),
            "position": list(range(len(texts))),
            "text": texts,
        }
    )
    return hold_out(chunks, chunks if documents else None, which, 3, 5, 0).to_pylist()  # type: ignore[arg-type]


def test_abbreviations_versions_and_chinese_are_split_where_sentences_end() -> None:
    assert split_sentences("It is used e.g. by Dr. Smith in v1.2.3 of it. Yes!\n\nNext") == [
        "It is used e.g. by Dr. Smith in v1.2.3 of it.",
        "Yes!",
        "Next",
    ]
    assert split_sentences("今天天气很好。我们去公园吧!") == ["今天天气很好。", "我们去公园吧!"]
    assert split_sentences(" \n ") == []


@pytest.mark.parametrize(("which", "place"), [("first", 0), ("middle", 2), ("last", 4)])
def test_the_held_sentence_is_the_one_asked_for_and_the_body_is_the_rest(which: str, place: int) -> None:
    (record,) = held_of([TEXT], which)
    assert (record["eligible"], record["held"], record["sentences"]) == (True, FIVE[place], 5)
    assert record["body"] == " ".join(FIVE[:place] + FIVE[place + 1 :])


def test_a_random_sentence_is_long_enough_and_stays_the_same() -> None:
    (record,) = held_of([TEXT], "random")
    assert record["held"] in FIVE
    assert record["held"] != FIVE[1]
    assert held_of([TEXT], "random") == [record]


def test_a_chunk_that_cannot_be_held_out_says_why() -> None:
    assert held_of(["One sentence that is long enough."], "middle")[0]["reason"] == "too_few_sentences"
    assert held_of(["Too short. Also short. Short too."], "middle")[0]["reason"] == "no_long_sentence"
    assert held_of([TEXT], "heading")[0]["reason"] == "no_heading"
    assert held_of([" ".join([FIVE[0], FIVE[0], FIVE[0]])], "middle")[0]["reason"] == "repeated"
    (record,) = held_of([TEXT], "heading", headings=["Animals"])
    assert (record["eligible"], record["reason"], record["held"], record["body"]) == (True, None, "Animals", TEXT)


def test_first_and_last_are_drawn_outside_what_neighbouring_chunks_share() -> None:
    overlapping = [" ".join(FIVE), f"{FIVE[4]} Owls see very well in the dark. Mice hide from owls in tall grass."]
    first, last = held_of(overlapping, "first")[1], held_of(overlapping, "last")[0]
    assert first["held"] == "Owls see very well in the dark."
    assert last["held"] == FIVE[3]
    assert held_of(overlapping, "first", documents=False)[1]["held"] == FIVE[4]
    windows = [" ".join(FIVE[2:]), " ".join(FIVE[2:])]
    assert [record["reason"] for record in held_of(windows, "last")] == ["all_overlap", "all_overlap"]


def test_a_header_that_a_documents_chunks_repeat_is_not_held_out() -> None:
    header = "All pages begin with this long line.\n"
    starts = ["Bears sleep in deep caves.", "Wolves run through cold forests.", "Owls see mice at night."]
    texts = [f"{header}{start} More text. And an end." for start in starts]
    assert repeated_header(texts) == header
    records = held_of(texts, "first")
    assert [record["held"] for record in records] == starts
    assert all("All pages" not in record["body"] for record in records)


def test_overlap_is_looked_for_in_normal_form() -> None:
    assert stands_in("Bears  SLEEP", "In caves bears\nsleep well.")
    assert not stands_in("bears sleep", "bears do not sleep")
    assert not stands_in("  ", "anything")
