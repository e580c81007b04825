#include "libsim/export/chrome_trace.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "libsim/export/trace_table.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "tests/libsim/export/rows.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::chrome_trace_test {

namespace {

using Writer = void (*)(TraceReader const&, std::vector<std::int32_t> const&, OutputFile&);

/// What the format writes of a trace, as text.
std::string written(Trace const& trace, Writer write) {
  TemporaryFolder const folder;
  write_trace(folder.file("t.h5"), trace);
  TraceReader const reader{folder.file("t.h5")};
  OutputFile output{folder.file("out")};
  write(reader, reader.ranks(), output);
  output.finish();
  auto const bytes = bytes_of(folder.file("out"));
  return {bytes.begin(), bytes.end()};
}

Trace two_stages() {
  RankTrace first = rank_of_rows(0, 0,
                                 {{.start = 0,
                                   .duration = 2000,
                                   .op = op_matmul,
                                   .phase = in_forward,
                                   .microbatch = 0,
                                   .chunk = 0,
                                   .layer = 0,
                                   .bytes = 10,
                                   .flops = 100},
                                  {.start = 2000,
                                   .duration = 1,
                                   .op = op_gelu,
                                   .phase = in_forward,
                                   .microbatch = 0,
                                   .chunk = 0,
                                   .layer = 1},
                                  {.start = 2001,
                                   .duration = 500,
                                   .op = op_send,
                                   .phase = in_transfer,
                                   .stream = on_send_activation,
                                   .microbatch = 0,
                                   .chunk = 0,
                                   .bytes = 8}});
  add_state(first, 0, 100, 0);
  add_state(first, 2000, 100, 50);
  RankTrace const second = rank_of_rows(1, 1,
                                        {{.start = 1500,
                                          .duration = 1001,
                                          .op = op_receive,
                                          .phase = in_transfer,
                                          .stream = on_receive_activation,
                                          .microbatch = 0,
                                          .chunk = 0,
                                          .bytes = 8}});
  return trace_of_rows({first, second});
}

}  // namespace

TEST_CASE("ops lie inside the slice of their chunk, times in microseconds, with three decimals") {
  auto const json = nlohmann::json::parse(written(two_stages(), write_chrome_trace));
  REQUIRE(json.at("otherData").at("device") == "a \"device\"");
  std::vector<nlohmann::json> slices;
  std::map<std::string, int> kinds;
  for (auto const& event : json.at("traceEvents")) {
    ++kinds[event.at("ph").get<std::string>()];
    if (event.at("ph") == "X") slices.push_back(event);
  }
  REQUIRE(kinds == std::map<std::string, int>{{"M", 10}, {"X", 5}, {"C", 2}, {"s", 1}, {"f", 1}});
  REQUIRE(slices[0].at("name") == "forward microbatch 0 chunk 0");
  REQUIRE(slices[0].at("dur") == 2.001);
  REQUIRE(slices[0].at("args") ==
          nlohmann::json{
              {"microbatch", 0}, {"chunk", 0}, {"layers", "0-1"}, {"bytes", 10}, {"flops", 100}});
  REQUIRE(slices[1].at("name") == "matmul");
  REQUIRE(slices[1].at("ts") == 0);
  REQUIRE(slices[2].at("name") == "gelu, \"fast\"");
  REQUIRE(slices[2].at("ts") == 2.0);
  REQUIRE(slices[2].at("args") == nlohmann::json{{"layer", 1}, {"microbatch", 0}, {"chunk", 0}});
}

TEST_CASE("an arrow ends inside the receive, where the send begins if that is inside") {
  auto const json = nlohmann::json::parse(written(two_stages(), write_chrome_trace));
  std::vector<nlohmann::json> ends;
  for (auto const& event : json.at("traceEvents")) {
    if (event.at("ph") == "s" || event.at("ph") == "f") ends.push_back(event);
  }
  REQUIRE(ends.size() == 2);
  REQUIRE(ends[0].at("ts") == 2.001);
  REQUIRE(ends[0].at("pid") == 1);
  REQUIRE(ends[1].at("ts") == 2.001);
  REQUIRE(ends[1].at("pid") == 2);
  REQUIRE(ends[1].at("bp") == "e");
  REQUIRE(ends[0].at("id") == ends[1].at("id"));
}

TEST_CASE("a table of ops quotes names as RFC 4180 does and leaves empty what does not apply") {
  std::string const text = written(two_stages(), write_op_table);
  REQUIRE_THAT(
      text,
      Catch::StartsWith(
          "rank,stage,start_ps,duration_ps,op,phase,stream,layer,microbatch,chunk,bytes,flops\n"
          "0,0,0,2000000,matmul,forward,compute,0,0,0,10,100\n"
          "0,0,2000000,1000,\"gelu, \"\"fast\"\"\",forward,compute,1,0,0,0,0\n"
          "0,0,2001000,500000,send.activation,transfer,send_activation,,0,0,8,0\n"));
}

TEST_CASE("a table of memory has one row per state") {
  REQUIRE(written(two_stages(), write_memory_table) ==
          "rank,stage,time_ps,parameters,gradients,optimizer,activations,recomputed,communication,"
          "gathered,workspace,reserved\n"
          "0,0,0,100,0,0,0,0,0,0,0,\n"
          "0,0,2000000,100,0,0,50,0,0,0,0,\n");
  Trace with_reserved = two_stages();
  with_reserved.ranks[0].memory.reserved = {128, 256};
  REQUIRE_THAT(written(with_reserved, write_memory_table),
               Catch::Contains("0,0,0,100,0,0,0,0,0,0,0,128\n") &&
                   Catch::Contains("0,0,2000000,100,0,0,50,0,0,0,0,256\n"));
}

TEST_CASE("a trace without rows gives formats that can be read") {
  Trace empty = trace_of_rows({rank_of_rows(0, 0, {})});
  REQUIRE(nlohmann::json::parse(written(empty, write_chrome_trace)).at("traceEvents").size() == 2);
  empty.ranks.clear();
  REQUIRE(nlohmann::json::parse(written(empty, write_chrome_trace)).at("traceEvents").empty());
}

}  // namespace stagecraft::chrome_trace_test
