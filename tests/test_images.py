import io
import os

import pytest
from hypothesis import given, strategies as st
from PIL import Image

from kode import images
from kode.errors import UserError
from kode.images import Picture, fit_picture, read_header, read_image, save_picture, with_copy_in
from tests import pictures


def drawn(form, size=(400, 300), mode="RGB", noise=0, **options):
    """A picture; `noise` fills it with what cannot be packed."""
    picture = Image.effect_noise(size, noise).convert(mode) if noise else Image.new(mode, size)
    file = io.BytesIO()
    picture.save(file, form, **options)
    return Picture(f"shot.{form.lower()}", file.getvalue())


FORMS = ("PNG", "GIF", "JPEG", "WEBP")


@pytest.mark.parametrize("form", FORMS)
def test_kind_and_size_are_read_from_the_bytes(form):
    assert read_header(drawn(form).data) == images.Looks(f"image/{form.lower()}", 400, 300)


@given(st.sampled_from([drawn(form, (4, 3)).data for form in FORMS]), st.data())
def test_a_cut_or_damaged_picture_is_never_a_fault(data, draw):
    cut = data[: draw.draw(st.integers(0, len(data)))]
    at = draw.draw(st.integers(0, max(len(cut) - 1, 0)))
    damaged = cut[:at] + draw.draw(st.binary(max_size=3)) + cut[at + 1 :]

    looks = read_header(damaged)

    assert looks is None or looks.width >= 0


def test_a_copy_is_private_and_named_by_its_content(tmp_path):
    image = save_picture(tmp_path / "images", "shot.png", pictures.png())
    key = "sk-ant-api03-" + "Ab3dE9xQ" * 6

    assert read_image(image) == pictures.png()
    assert os.stat(image.kept_in).st_mode & 0o777 == 0o600
    assert save_picture(tmp_path / "images", "again.png", pictures.png()).kept_in == image.kept_in
    assert image.description == "shot.png, 4×3, 1 KB"
    assert key not in save_picture(tmp_path, f"{key}.png", pictures.png()).name


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
        save_picture(tmp_path, "x", data)

    assert str(refused.value).endswith(("that matters.", "or WebP."))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_or_replaced_copy_is_not_sent(tmp_path):
    image = save_picture(tmp_path, "shot.png", pictures.png())
    assert read_image(with_copy_in(image, tmp_path / "elsewhere")) is not None  # where it was

    with open(image.kept_in, "wb") as file:
        file.write(b"secret text")
    assert read_image(image) is None

    os.unlink(image.kept_in)
    assert read_image(image) is None


@pytest.fixture
def small_limits(monkeypatch):
    """As with the real limits, on pictures that are made in no time."""
    monkeypatch.setattr(images, "MAX_BYTES", 40_000)
    monkeypatch.setattr(images, "MAX_SIDE", 800)
    monkeypatch.setattr(images, "SIDE", 200)


def opened(picture):
    return Image.open(io.BytesIO(picture.data))


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize(
    ("form", "options", "kind"),
    [
        ("JPEG", {"noise": 90}, "jpeg"),
        ("PNG", {"size": (1600, 1200)}, "png"),  # of a screen: it loses nothing but size
        ("PNG", {"mode": "RGBA", "noise": 120}, "jpeg"),  # it would stay too large
        ("GIF", {"size": (1600, 1200)}, "png"),
    ],
)
def test_a_large_picture_is_made_smaller(form, options, kind):
    small = fit_picture(drawn(form, **options))

    assert read_header(small.data) == images.Looks(f"image/{kind}", 200, 150)
    assert len(small.data) <= images.MAX_BYTES


@pytest.mark.usefixtures("small_limits")
def test_a_photograph_is_upright_and_hides_its_location():
    turned = Image.Exif()
    turned[0x0112] = 6  # a quarter turn
    turned[0x010F] = "a maker"

    small = fit_picture(drawn("JPEG", noise=90, exif=turned))

    assert opened(small).size == (150, 200)
    assert not opened(small).getexif()


@pytest.mark.usefixtures("small_limits")
def test_a_damaged_picture_is_told_with_the_next_step():
    picture = drawn("PNG", size=(900, 900), noise=90)

    with pytest.raises(UserError, match="Re-save it"):
        fit_picture(Picture("shot.png", picture.data[:50_000]))
