#include "libsim/hardware/collective_tables.hpp"

#include <catch2/catch.hpp>

namespace stagecraft::collective_tables_test {
namespace {

CollectiveTables read(std::string const& text) {
  return read_collective_tables(CsvTable{text, "t.csv"});
}

TEST_CASE("a file of tables has a column for each shape, in microseconds", "[hardware]") {
  CollectiveTables const tables =
      read("bytes,all_reduce 1x8,all_gather 2x8\n1024,10.5,\n2048,20,7\n4096,40,9\n");
  REQUIRE(tables.size() == 2);
  auto const& reduces = tables.at({OpKind::all_reduce, 1, 8});
  REQUIRE(reduces == std::vector<CollectivePoint>{{Bytes{1024}, Seconds{10.5e-6}},
                                                  {Bytes{2048}, Seconds{20e-6}},
                                                  {Bytes{4096}, Seconds{40e-6}}});
  auto const& gathers = tables.at({OpKind::all_gather, 2, 8});
  REQUIRE(gathers.size() == 2);
  REQUIRE(gathers.front().size == Bytes{2048});
}

TEST_CASE("tables written as CSV read back the same", "[hardware]") {
  CollectiveTables const tables{
      {{OpKind::all_reduce, 1, 2}, {{Bytes{8}, Seconds{0.1e-6}}, {Bytes{64}, Seconds{44.21e-6}}}},
      {{OpKind::reduce_scatter, 4, 8}, {{Bytes{8}, Seconds{1e-3}}, {Bytes{1 << 30}, Seconds{3}}}}};
  std::string const text = to_csv(tables);
  REQUIRE(text.find("bytes,all_reduce 1x2,reduce_scatter 4x8\n8,") == 0);
  CollectiveTables const again = read(text);
  REQUIRE(to_csv(again) == text);
  REQUIRE(again.at({OpKind::reduce_scatter, 4, 8}).back().duration.value == Approx(3));
}

TEST_CASE("a time is straight between points, constant below them, straight beyond", "[hardware]") {
  std::vector<CollectivePoint> const table{
      {Bytes{100}, Seconds{2}}, {Bytes{200}, Seconds{4}}, {Bytes{400}, Seconds{5}}};
  REQUIRE(interpolate(table, 1) == 2);
  REQUIRE(interpolate(table, 100) == 2);
  REQUIRE(interpolate(table, 150) == Approx(3));
  REQUIRE(interpolate(table, 200) == Approx(4));
  REQUIRE(interpolate(table, 300) == Approx(4.5));
  REQUIRE(interpolate(table, 600) == Approx(6));
}

TEST_CASE("beyond a dense table its noise is not followed", "[hardware]") {
  // A second a byte, and a last point that is below the one before.
  std::vector<CollectivePoint> table;
  for (int bytes = 1; bytes <= 100; ++bytes) table.push_back({Bytes{bytes}, Seconds{1.0 * bytes}});
  table.back().duration = Seconds{98.5};
  REQUIRE(interpolate(table, 200) == Approx(98.5 + 100 * 48.5 / 50));
}

TEST_CASE("a file of tables names every problem with its place", "[hardware]") {
  REQUIRE_THROWS_WITH(
      read("size,all_reduce 8,broadcast 1x8,all_reduce 1x1\n1,1,1,1\n"),
      "t.csv:1:1: found 'size'; accepted: bytes, in the first column\n"
      "t.csv:1:6: found 'all_reduce 8'; accepted: all_reduce, all_gather or reduce_scatter, a "
      "space, and NODESxRANKS_PER_NODE, such as all_reduce 2x8\n"
      "t.csv:1:19: found 'broadcast 1x8'; accepted: all_reduce, all_gather or reduce_scatter, a "
      "space, and NODESxRANKS_PER_NODE, such as all_reduce 2x8\n"
      "t.csv:1:33: found 'all_reduce 1x1'; accepted: all_reduce, all_gather or reduce_scatter, a "
      "space, and NODESxRANKS_PER_NODE, such as all_reduce 2x8");
  REQUIRE_THROWS_WITH(read("bytes,all_reduce 1x8,all_reduce 1x8\n1,1,1\n2,1,1\n"),
                      "t.csv:1:22: found 'all_reduce 1x8'; accepted: each shape once");
  REQUIRE_THROWS_WITH(read("bytes,all_reduce 1x8\n4,1\n2,-1\nx,1\n8,nan\n"),
                      "t.csv:3:1: found '2'; accepted: a size above that of the row before\n"
                      "t.csv:3:3: found '-1'; accepted: microseconds, more than 0, or nothing\n"
                      "t.csv:4:1: found 'x'; accepted: a number of bytes, 1 or more\n"
                      "t.csv:5:3: found 'nan'; accepted: microseconds, more than 0, or nothing\n"
                      "t.csv:1:7: found 1 times; accepted: at least two times of each shape");
}

}  // namespace
}  // namespace stagecraft::collective_tables_test
