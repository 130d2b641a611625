"""Write docs/numpy-support.md."""

from tests.surface.measure import measure_all
from tests.surface.page import PAGE, page

PAGE.write_text(page(measure_all()))
