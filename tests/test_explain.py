"""What `explain` tells: fields, text, and a page."""

import html.parser
import re

import numpy as np
import pytest

import npcompile as npc
from npcompile.drawing import drawn
from npcompile.explanation import loops_drawn


def with_break(x):
    y = np.sin(x) * 2
    n = int(y.sum())
    return y + n


def test_explain():
    report = npc.explain(with_break)(np.ones(4))
    assert len(report.graphs) == 2 and report.ops == tuple(sum(n.op != "input" for n in g.nodes) for g in report.graphs)
    (reason,) = report.breaks
    assert reason.location.line == with_break.__code__.co_firstlineno + 2
    assert "int() of array data" in str(reason) and "test_explain.py" in str(reason)
    assert report.seconds["capture"] > 0
    np.testing.assert_array_equal(report.result, with_break(np.ones(4)))
    text = str(report)
    assert "2 graphs, 1 break" in text and "sin(" in text and "x: float64 array of shape (4,), C-contiguous" in text


def test_explain_measures_the_parts_of_the_call():
    x = np.ones((300, 1000))
    report = npc.explain(with_break)(x)
    names = [part.name for part in report.parts]
    assert names == ["compiling", "graph 0", "Python", "graph 1", "guards, calls and the rest"]
    first = with_break.__code__.co_firstlineno
    assert [part.line - first for part in report.parts[1:4]] == [1, 2, 3]
    assert sum(part.seconds for part in report.parts) == pytest.approx(report.call_seconds)
    assert report.parts[3].traffic == 2 * x.nbytes  # y and the result
    assert "GB/s" in str(report) and "GB/s" in report._repr_html_()


def test_explain_measures_nothing_where_a_profiler_is_at_work():
    with npc.profile():
        report = npc.explain(with_break)(np.ones(4))
    assert not report.parts and len(report.graphs) == 2 and "time of this call" not in str(report)


def test_explain_compares_the_traffic_of_a_compiled_loop_with_a_copy():
    def smoothed(x, y):
        s = 0.0
        for i in range(x.size):
            s = 0.5 * (s + x[i])
            y[i] = s
        return y

    x = np.ones(1_000_000)
    report = npc.explain(smoothed)(x, np.empty_like(x))
    (part,) = (part for part in report.parts if part.name == "compiled loop")
    assert part.traffic == 2 * x.nbytes * part.times  # what is given and returned counts once
    assert f"{part.traffic / 1e6:.1f} MB at " in str(report)


def test_explain_draws_compiled_loops():
    def relax(x):
        for _ in range(3):
            for i in range(1, x.shape[0] - 1):
                for j in range(1, x.shape[1] - 1):
                    x[i, j] = 0.25 * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
        for i in range(x.shape[0]):
            x[i, 0] = 0.0

    first = relax.__code__.co_firstlineno
    picture = loops_drawn(npc.explain(relax)(np.ones((40, 40))))
    boxes = re.findall(r'<div class="loop ([\w-]+)">line (\d+)|(</div>)', picture)
    assert [int(line) - first if line else "end" for _, line, _ in boxes] == [1, 2, 3, "end", "end", "end", 5, "end"]
    assert boxes[1][0] == "parallel" and "on threads, row by row" in picture
    assert "not on threads" not in picture.split("<br>")[2]  # where another pass has put it on threads


def test_explain_draws_no_loops_of_functions_without():
    assert loops_drawn(npc.explain(lambda x: x + 1.0)(np.ones(3))) == ""


def test_explain_draws_graphs():
    report = npc.explain(with_break)(np.ones(4))
    drawings = [drawn(graph) for graph in report.graphs]
    assert [picture.count("<rect") for picture in drawings] == [len(graph.nodes) for graph in report.graphs]
    assert all(picture in report._repr_html_() for picture in drawings)


def values(n):
    yield from range(n)


def looks_at_its_frame():
    return sorted(locals())


@pytest.mark.parametrize(
    "function, args, reason",
    [
        (values, (3,), "generators and coroutines are not captured"),
        (looks_at_its_frame, (), "locals is not captured: it reads the frame of the function"),
    ],
)
def test_explain_says_why_nothing_can_be_captured(function, args, reason):
    report = npc.explain(function)(*args)
    assert report.summary == "0 graphs, 1 break" and reason in str(report)
    assert report.breaks[0].location.line == function.__code__.co_firstlineno
    assert Page(report._repr_html_()).texts["break"].startswith("def ")


def test_explain_of_a_function_with_nothing_to_compile():
    report = npc.explain(lambda d: sorted(d.items()))({2: 1})
    assert report.summary == "nothing to compile: Python runs it"
    assert report.result == [(2, 1)]


def doubled_into(x, out):
    for i in range(x.size):
        out[i] = x[i] * 2.0


def test_loops_on_threads_and_in_vectors_have_colours_of_their_own():
    page = Page(npc.explain(doubled_into)(np.ones(100_000), np.ones(100_000))._repr_html_())
    assert "out[i] = x[i] * 2.0" in page.texts["parallel-vector"]
    assert "compiled loop, on all threads in vectors" in page.texts["legend note"]


def running_sum(x):
    s = 0.0
    for i in range(x.size):
        s = s + x[i]
        if s > 1e9:
            break
    return s


@pytest.mark.parametrize("function", [running_sum, npc.grad(running_sum)])
def test_explain_has_the_c_of_native_programs(function):
    report = npc.explain(function)(np.ones(100))
    assert report.summary == "1 compiled loop, 0 breaks" and repr(report) == f"<Explanation of running_sum: {report.summary}>"
    # The C is read: it is what `explain` gives.
    (source,) = report.sources
    assert "npc_run(" in source and str(report).startswith(f"running_sum: {report.summary}\n")


class Page(html.parser.HTMLParser):
    """The texts in elements of each class, and what the page would load."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.loaded = [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.loaded += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("br", "meta"):
            self.open.append((tag, dict(attributes).get("class", "")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, kind in self.open:
            self.texts[kind] = self.texts.get(kind, "") + data


@pytest.mark.parametrize("function, kind, words", [(with_break, "break", "int(y.sum())"), (running_sum, "native", "s + x[i]")])
def test_the_page_of_an_explanation(function, kind, words, tmp_path):
    report = npc.explain(function)(np.ones(100))
    report.html(tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert not page.open and not page.loaded
    assert words in page.texts[kind]
    assert report.summary in page.texts["npcompile"] and report._repr_html_() in (tmp_path / "page.html").read_text()


def test_the_page_of_a_function_without_source():
    namespace = {"np": np}
    exec("def f(x):\n    return np.exp(x) + 1", namespace)
    assert "1 graph, 0 breaks" in npc.explain(namespace["f"])(np.ones(3))._repr_html_()


def scaled_loss(w, x):
    return np.mean(np.sin(x @ w) ** 2)


def test_a_gradient_shows_the_lines_of_the_users_function():
    page = Page(npc.explain(npc.grad(scaled_loss))(np.ones(3), np.ones((4, 3)))._repr_html_())
    assert "np.mean(np.sin(x @ w) ** 2)" in page.texts["graph"]


def test_notes_beside_lines_are_in_words():
    page = Page(npc.explain(running_sum)(np.ones(100))._repr_html_())
    assert "not on threads: " in page.texts["note"] and "speculation" not in page.texts["note"]


def test_the_time_of_python_stands_at_its_line():
    page = Page(npc.explain(with_break)(np.ones(4))._repr_html_())
    line = with_break.__code__.co_firstlineno + 2
    assert f"Python (line {line}): " in page.texts["note"]
