"""Why a row of the source store is rejected, by code. Which row gets which code is not told here, nor what it means.

validation.py and the readers give the codes, rejections.py says what they mean for the index.
"""

BAD_DATE = "bad_date"
BEFORE_START = "before_start_date"
"""Dated before the settings' start date: left out on purpose, so no loss."""
DATE_OUT_OF_RANGE = "date_out_of_range"
"""More than a few days after today."""
DUPLICATE_ROW = "duplicate_row"
"""The same id with the same content again in one batch: kept once."""
EMPTY_TEXT = "empty_text"
"""White space only."""
ID_COLLISION = "id_collision"
"""An id that another row holds."""
INVALID_UTF8 = "invalid_utf8"
MISSING_ID = "missing_id"
MISSING_TEXT = "missing_text"
NOT_YET = "not_yet"
"""Dated tomorrow or a few days later."""
UNPARSABLE_MODULE = "unparsable_module"
"""Docstrings only."""

REASONS = frozenset(
    {
        BAD_DATE,
        BEFORE_START,
        DATE_OUT_OF_RANGE,
        DUPLICATE_ROW,
        EMPTY_TEXT,
        ID_COLLISION,
        INVALID_UTF8,
        MISSING_ID,
        MISSING_TEXT,
        NOT_YET,
        UNPARSABLE_MODULE,
    }
)
"""All of them; each rejected row says in its detail what was found."""

TEXTLESS = (EMPTY_TEXT, MISSING_TEXT)
"""Rows without a text: no batch loses anything by them, but a writer that takes them in is told."""

OWNED_BY = "the id belongs to a row of batch "
"""Begins the detail of an ID_COLLISION; the key of the batch follows."""
