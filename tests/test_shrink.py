import io
import sys

import pytest
from PIL import Image

from kode import images
from kode.errors import UserError
from kode.images import Picture, check, fitting, looks_of
from tests.pictures import png


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch):
    """As with the real limits, on pictures that are made in no time."""
    monkeypatch.setattr(images, "MAX_BYTES", 40_000)
    monkeypatch.setattr(images, "MAX_SIDE", 800)
    monkeypatch.setattr(images, "SIDE", 200)


def drawn(form, size=(400, 300), mode="RGB", noise=0, **options):
    """A picture; `noise` fills it with what cannot be packed."""
    picture = Image.effect_noise(size, noise).convert(mode) if noise else Image.new(mode, size)
    file = io.BytesIO()
    picture.save(file, form, **options)
    return Picture(f"shot.{form.lower()}", file.getvalue())


def opened(picture):
    return Image.open(io.BytesIO(picture.data))


def test_a_picture_that_servers_take_is_sent_byte_for_byte():
    picture = drawn("PNG")

    assert fitting(picture) is picture


def test_a_photograph_is_made_smaller_and_stays_one():
    small = fitting(drawn("JPEG", noise=90))

    looks = looks_of(small.data)
    assert (looks.media_type, looks.width, looks.height) == ("image/jpeg", 200, 150)
    assert len(small.data) <= images.MAX_BYTES


def test_a_picture_of_the_screen_loses_nothing_but_size():
    small = fitting(drawn("PNG", size=(1600, 1200)))

    looks = looks_of(small.data)
    assert (looks.media_type, looks.width, looks.height) == ("image/png", 200, 150)


def test_a_png_that_stays_too_large_becomes_a_jpeg():
    picture = drawn("PNG", mode="RGBA", noise=120)
    assert len(picture.data) > images.MAX_BYTES

    small = fitting(picture)

    assert looks_of(small.data).media_type == "image/jpeg"


def test_a_moving_picture_becomes_its_first_frame():
    frames = [Image.new("P", (900, 900), color) for color in (1, 2)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])

    small = fitting(Picture("move.gif", file.getvalue()))

    assert looks_of(small.data).media_type == "image/png"
    assert opened(small).size == (200, 200)


def test_a_photograph_is_upright_and_hides_its_location():
    turned = Image.Exif()
    turned[0x0112] = 6  # a quarter turn
    turned[0x010F] = "a maker"

    small = fitting(drawn("JPEG", noise=90, exif=turned))

    assert opened(small).size == (150, 200)
    assert not opened(small).getexif()


def test_a_damaged_picture_is_told_with_the_next_step():
    picture = drawn("PNG", size=(900, 900), noise=90)

    with pytest.raises(UserError, match=r"could not be made smaller: .* Re-save it or crop it"):
        fitting(Picture("shot.png", picture.data[:50_000]))


def test_hopelessly_large_files_are_refused_before_opening(monkeypatch):
    with pytest.raises(UserError, match="too large, 30000×30000 pixels"):
        check(Picture("shot.png", png(30_000, 30_000)))
    monkeypatch.setattr(images, "MAX_READ_BYTES", 50)
    with pytest.raises(UserError, match="too large, 900×900 pixels"):
        check(drawn("PNG", size=(900, 900)))


def test_a_file_that_is_no_picture_is_refused():
    with pytest.raises(UserError, match="not an image a model can see"):
        check(Picture("x.png", b"text"))


def test_the_extra_that_shrinks_pictures_is_named_where_missing(monkeypatch):
    picture = drawn("JPEG", noise=90)
    monkeypatch.setitem(sys.modules, "PIL", None)

    with pytest.raises(UserError, match=r"kode\[pictures\]"):
        fitting(picture)
