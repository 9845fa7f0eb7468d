"""Models and templates that cannot be used. Encoders behind a server stand in of_server.py."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.signatures import compute_signatures, join_signatures
from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.messages.case import Case, World

ROWS = pa.table({"text": ["body"], "heading": ["One"], "meta": [{"a": 1}]})


def model(name: str, revision: str | None = None) -> Callable[[World], object]:
    """The cause that is a model of this name; FOLDER in it is the world's folder."""
    return lambda world: load_encoder(
        EncoderSettings(model=name.replace("FOLDER", str(world.folder)), revision=revision)
    )


def template(embed_text: str) -> Callable[[World], object]:
    return lambda world: embedded_texts(ROWS, embed_text)


def broken_model(world: World) -> None:
    world.write("model/modules.json", "[]")
    world.write("model/config.json", "{}")
    encoder = load_encoder(EncoderSettings(model=str(world.folder / "model")))
    assert encoder is not None
    encoder.encode(["text"])


def signatures(shingle_words: int, *, recorded: bool) -> Callable[[World], object]:
    """The cause that is a batch whose signatures an earlier version or other settings left in the state folder."""

    def cause(world: World) -> None:
        table = pa.table({"chunk_id": ["a"], "text": ["some text"]})
        made = compute_signatures(table, DuplicateSettings(shingle_words=shingle_words))
        join_signatures({"2026-01-02|s": made if recorded else made.replace_schema_metadata(None)}, DuplicateSettings())

    return cause


CASES = [
    Case(
        "a folder that holds no model",
        model("FOLDER"),
        "encoder.model: folder 'FOLDER' holds no sentence-transformers model (neither modules.json nor config.json): "
        "name the folder that SentenceTransformer.save() wrote",
    ),
    Case(
        "a folder that does not exist",
        model("./no/such/folder"),
        "encoder.model: folder './no/such/folder' does not exist: correct the path",
    ),
    Case(
        "a name that is nowhere",
        model("some-org/no-such-model"),
        "encoder.model: 'some-org/no-such-model' is neither a folder, nor an installed model package, nor in the local "
        "hub cache, and cannot be fetched (HF_HUB_OFFLINE is set) (LocalEntryNotFoundError): "
        "check the name or download it first",
    ),
    Case(
        "a bare name that is nowhere",
        model("no-such-model"),
        "encoder.model: 'sentence-transformers/no-such-model' is neither a folder, … (LocalEntryNotFoundError): "
        "check the name or download it first",
    ),
    Case(
        "a revision of a packaged model",
        model("sentence-transformers/all-MiniLM-L6-v2", "deadbeef"),
        "encoder.model: 'sentence-transformers/all-MiniLM-L6-v2' at revision 'deadbeef' is neither a folder, …: "
        "check the name or download it first",
    ),
    Case(
        "a model whose files are not whole",
        broken_model,
        "encoder.model: 'model' cannot be loaded (…): "
        "check that the files are complete and that encoder.trust_remote_code is set where it needs it",
    ),
    Case(
        "an unknown field in a template",
        template("{headin}\n{text}"),
        "index.embed_text: '{headin}\\n{text}' names 'headin', which the rows do not have (did you mean 'heading'?): "
        "use one of text, heading, meta",
    ),
    Case(
        "a brace that is not closed",
        template("{heading"),
        "index.embed_text: '{heading' is no template (expected '}' before end of string): write fields as {heading}",
    ),
    *(
        Case(
            f"a field with more than a name: {text}",
            template(text),
            f"index.embed_text: {text!r} holds more than plain fields: write them as {{heading}}",
        )
        for text in ("{}", "{text!r}", "{text:>10}")
    ),
    Case(
        "a template without fields",
        template("{{text}}"),
        "index.embed_text: '{{text}}' names no field: write at least {text}",
    ),
    Case(
        "a column that is no text",
        template("meta"),
        "index.embed_text: column 'meta' is a struct<a: int64>, which is no text: name a text column",
    ),
    Case(
        "signatures of another shingle size",
        signatures(3, recorded=True),
        "signatures of batch 2026-01-02|s have shingle_units 3, those of these settings 5, and cannot be compared: "
        "materialise minhash_signatures of batch 2026-01-02|s again",
    ),
    Case(
        "signatures of an unknown origin",
        signatures(5, recorded=False),
        "batch 2026-01-02|s: the signatures carry no record of how they were made: "
        "materialise minhash_signatures again",
    ),
]
