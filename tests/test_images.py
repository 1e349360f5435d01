import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kode import images
from kode.errors import UserError
from kode.images import bytes_of, keep, kept_beside, looks_of
from tests import pictures


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (pictures.png(640, 480), "image/png"),
        (pictures.gif(640, 480), "image/gif"),
        (pictures.jpeg(640, 480), "image/jpeg"),
        (pictures.webp(640, 480), "image/webp"),
    ],
)
def test_kind_and_size_are_read_from_the_bytes(data, kind):
    looks = looks_of(data)

    assert looks is not None
    assert (looks.media_type, looks.width, looks.height) == (kind, 640, 480)


@given(
    st.sampled_from([pictures.png(), pictures.gif(), pictures.jpeg(), pictures.webp()]), st.data()
)
def test_a_cut_or_damaged_picture_is_never_a_fault(data, draw):
    cut = data[: draw.draw(st.integers(0, len(data)))]
    at = draw.draw(st.integers(0, max(len(cut) - 1, 0)))
    damaged = cut[:at] + draw.draw(st.binary(max_size=3)) + cut[at + 1 :]

    looks = looks_of(damaged)

    assert looks is None or looks.width >= 0


def test_a_copy_is_private_and_named_by_its_content(tmp_path):
    image = keep(tmp_path / "images", "shot.png", pictures.png())

    assert bytes_of(image) == pictures.png()
    assert os.stat(image.kept_in).st_mode & 0o777 == 0o600
    assert keep(tmp_path / "images", "again.png", pictures.png()).kept_in == image.kept_in
    assert image.description == "shot.png, 4×3, 1 KB"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"%PS-Adobe-3.0", "not an image a model can see"),
        (b"", "not an image"),
        (pictures.png(more=b"x" * images.MAX_BYTES), r"too large, 4×3 pixels, 3.9 MB"),
        (pictures.png(9000, 10), "too large, 9000×10 pixels"),
    ],
)
def test_an_unshowable_file_is_refused_with_advice(tmp_path, data, says):
    with pytest.raises(UserError, match=says) as refused:
        keep(tmp_path, "x", data)

    assert str(refused.value).endswith(("that matters.", "or WebP."))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_or_replaced_copy_is_not_sent(tmp_path):
    image = keep(tmp_path, "shot.png", pictures.png())
    assert bytes_of(kept_beside(image, tmp_path / "elsewhere")) is not None  # where it was

    with open(image.kept_in, "wb") as file:
        file.write(b"secret text")
    assert bytes_of(image) is None

    os.unlink(image.kept_in)
    assert bytes_of(image) is None


def test_a_key_in_the_name_of_a_picture_is_masked(tmp_path):
    key = "sk-ant-api03-" + "Ab3dE9xQ" * 6

    assert key not in keep(tmp_path, f"{key}.png", pictures.png()).name
