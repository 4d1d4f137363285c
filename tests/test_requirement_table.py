"""Every requirement is in the table of `tests/README.md`, with the tests that name it."""

import ast

from requirement_table import PAGE, ROW, filled, marked, names_by_requirement

REQUIREMENTS = [f"R{number}" for number in range(1, 59)]


def test_the_table_is_up_to_date():
    page = PAGE.read_text()
    assert filled(page) == page, "run `python tests/requirement_table.py`"
    assert len(page) <= 30_000


def test_every_requirement_has_a_row_and_a_test():
    assert [match[2] for match in ROW.finditer(PAGE.read_text())] == REQUIREMENTS
    assert sorted(names_by_requirement()) == sorted(REQUIREMENTS)


def test_marks_of_files_classes_and_tests_are_read():
    source = """
pytestmark = [pytest.mark.long, pytest.mark.requirement("R1")]
def helper(): ...
@pytest.mark.requirement("R2", "R3")
def test_a(): ...
@pytest.mark.requirement("R4")
class TestB:
    @pytest.mark.quick
    def test_c(self): ...
"""
    assert list(marked(ast.parse(source).body, [])) == [("test_a", ["R1", "R2", "R3"]), ("test_c", ["R1", "R4"])]
