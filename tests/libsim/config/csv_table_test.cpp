#include "libsim/config/csv_table.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/config/csv_field.hpp"

namespace stagecraft::csv_table_test {
namespace {

std::vector<std::string> texts(std::vector<CsvCell> const& cells) {
  std::vector<std::string> all;
  for (CsvCell const& cell : cells) all.push_back(cell.text);
  return all;
}

std::string refusal(std::string const& text) {
  try {
    CsvTable const table{text, "f.csv"};
    return "none";
  } catch (ConfigError const& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("cells in quotes hold commas, quotes and line ends, as in RFC 4180", "[validation]") {
  CsvTable const table{"a,b\n\"[6, 5]\",\"say \"\"x\"\"\"\n\"two\nlines\",\n", "f.csv"};
  REQUIRE(texts(table.header()) == std::vector<std::string>{"a", "b"});
  REQUIRE(table.rows() == 2);
  REQUIRE(texts(table.row(0)) == std::vector<std::string>{"[6, 5]", "say \"x\""});
  REQUIRE(texts(table.row(1)) == std::vector<std::string>{"two\nlines", ""});
}

TEST_CASE("a text is written as a CSV cell with quotes only if it needs them, as in RFC 4180",
          "[validation]") {
  REQUIRE(csv_field("plain text") == "plain text");
  REQUIRE(csv_field("") == "");
  REQUIRE(csv_field("a,b") == "\"a,b\"");
  REQUIRE(csv_field("say \"x\"") == "\"say \"\"x\"\"\"");
  REQUIRE(csv_field("two\nlines") == "\"two\nlines\"");
}

TEST_CASE("CRLF, a byte order mark, empty lines and a missing last line end change nothing",
          "[validation]") {
  std::string const text = GENERATE("a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n",
                                    "\xEF\xBB\xBF"
                                    "a,b\n1,2\n3,4",
                                    "\n\na,b\n\n1,2\r\n\r\n3,4\n\n");
  CsvTable const table{text, "f.csv"};
  REQUIRE(texts(table.header()) == std::vector<std::string>{"a", "b"});
  REQUIRE(table.rows() == 2);
  REQUIRE(texts(table.row(0)) == std::vector<std::string>{"1", "2"});
  REQUIRE(texts(table.row(1)) == std::vector<std::string>{"3", "4"});
}

TEST_CASE("an empty line is a row of a table with one column", "[validation]") {
  REQUIRE(CsvTable{"a\n1\n\n2\n", "f.csv"}.rows() == 3);
}

TEST_CASE("a cell knows its line and column, also behind a cell of several lines", "[validation]") {
  CsvTable const table{"a,b,c\n\"x\ny\",22,333\n", "f.csv"};
  std::vector<CsvCell> const cells = table.row(0);
  REQUIRE(to_string(table.place_of(cells[0])) == "f.csv:2:1");
  REQUIRE(to_string(table.place_of(cells[1])) == "f.csv:3:4");
  REQUIRE(to_string(table.place_of(cells[2])) == "f.csv:3:7");
}

TEST_CASE("what is no table is refused with its place and what is accepted", "[validation]") {
  REQUIRE(refusal("a,b\n1,2\n3\n4,5,6\n") ==
          "f.csv:3:1: found 1 cell; accepted: 2 cells, one per column of the header\n"
          "f.csv:4:1: found 3 cells; accepted: 2 cells, one per column of the header");
  REQUIRE(refusal("a,b\n1,\"2\n") ==
          "f.csv:2:3: found a quote that no other ends; accepted: a second quote");
  REQUIRE(refusal("a,b\n1,\"2\"x\n") ==
          "f.csv:2:6: found text behind the quote that ends a cell; accepted: a comma or the end "
          "of the line; a quote inside quotes is written twice");
  REQUIRE(refusal("a,b\n1,2\"\n") ==
          "f.csv:2:4: found a quote inside a cell that does not begin with one; accepted: the "
          "whole cell in quotes, with each quote inside written twice");
  REQUIRE(refusal("a,b\r1,2\r") ==
          "f.csv:1:4: found a carriage return without a line feed; accepted: lines that end with "
          "LF or CRLF");
  REQUIRE(refusal("a,b\n\xFF,2\n") ==
          "f.csv:2:1: found a byte 0xff, which is not UTF-8; accepted: text in UTF-8");
  REQUIRE(refusal("a;b\n1;2\n") == "f.csv:1:1: found semicolons between cells; accepted: commas");
  REQUIRE(refusal("a\tb\n1\t2\n") == "f.csv:1:1: found tabs between cells; accepted: commas");
  REQUIRE(refusal("") ==
          "f.csv:1:1: found an empty file; accepted: CSV with a header and rows below it");
  REQUIRE(refusal("a,b\n\n") ==
          "f.csv:1:1: found a header without rows; accepted: at least one row below the header");
}

}  // namespace stagecraft::csv_table_test
