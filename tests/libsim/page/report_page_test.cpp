#include "libsim/page/report_page.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <tuple>

#include "libsim/page/page_facts.hpp"
#include "libsim/page/page_summary.hpp"
#include "libsim/page/page_text.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "tests/libsim/export/rows.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::report_page_test {

namespace {

using Catch::Contains;

PageTrace page_of(Trace const& trace, std::size_t most_rows = 1'000) {
  TemporaryFolder const folder;
  write_trace(folder.file("a trace.h5"), trace);
  return read_page_trace(TraceReader{folder.file("a trace.h5")}, {}, most_rows);
}

/// One stage of the twin of the paper's 22B run, configured for A100s, as `clock` and `device` say.
Trace twin(TraceClock clock, std::string const& device) {
  RankTrace rank = rank_of_rows(
      0, 0,
      {{.start = 0, .duration = 2'000'000, .op = op_matmul, .phase = in_forward, .microbatch = 0},
       {.start = 8'000'000, .duration = 2'000'000, .op = op_gelu, .phase = in_forward}});
  add_state(rank, 0, std::int64_t{5} << 20, 0);
  Trace trace = trace_of_rows({rank});
  trace.meta.clock = clock;
  trace.meta.device = device;
  trace.meta.config =
      to_yaml(load_run_config(STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present-twin.yaml", {}));
  return trace;
}

nlohmann::json data_of(PageTrace const& page) { return nlohmann::json::parse(page.data); }

constexpr std::int64_t ns = 1'000'000'000;  // a second

/// Three ranks on two stages: stage 0 computes 6 of 8 seconds, stage 1 (two ranks) 4 and 8.
Trace job() {
  RankTrace first = rank_of_rows(0, 0,
                                 {{.start = 0,
                                   .duration = 6 * ns,
                                   .op = op_forward,
                                   .phase = in_forward,
                                   .microbatch = 0,
                                   .chunk = 0}});
  RankTrace second = rank_of_rows(2, 1,
                                  {{.start = 4 * ns,
                                    .duration = 4 * ns,
                                    .op = op_forward,
                                    .phase = in_forward,
                                    .microbatch = 0,
                                    .chunk = 0}});
  RankTrace third = rank_of_rows(3, 1,
                                 {{.start = 0,
                                   .duration = 8 * ns,
                                   .op = op_forward,
                                   .phase = in_forward,
                                   .microbatch = 0,
                                   .chunk = 0}});
  add_state(first, 0, std::int64_t{3} << 30, 0);
  add_state(second, 0, std::int64_t{1} << 30, 0);
  add_state(third, 2 * ns, std::int64_t{2} << 30, 0);
  return trace_of_rows({first, second, third});
}

}  // namespace

TEST_CASE("of each stage the fullest rank is drawn, the facts are over all ranks") {
  PageTrace const page = page_of(job());
  REQUIRE(page.shown == std::vector<std::int32_t>{0, 3});
  REQUIRE(page.iteration == 8 * ns * 1000);
  REQUIRE(fullest(page).rank == 0);
  REQUIRE(busiest(page).rank == 3);
  auto const facts = facts_of(page);
  REQUIRE(facts[0].value == "8.00\u00a0s");
  REQUIRE(facts[1].value == "3.00\u00a0GiB");
  REQUIRE_THAT(facts[1].sentence, Contains("stage 0") && Contains("does not load"));
  // Rank 3 computes for all of the 8 seconds; of 24 seconds, all wait for 2 + 4 + 0.
  REQUIRE(facts[2].heading == "Waiting of the busiest stage");
  REQUIRE_THAT(facts[2].sentence, Contains("does not wait for another stage") &&
                                      Contains("The mean over all stages is 25.0\u00a0%."));
  REQUIRE(facts[3].value == "none");
  REQUIRE_THAT(stage_table_html(page, "x"), Contains("<th scope=\"col\">rank</th>"));
}

TEST_CASE("a small run is told and tabled in the units that fit it") {
  PageTrace const page = page_of(twin(TraceClock::simulated, "selene-a100"));
  auto const facts = facts_of(page);
  REQUIRE(facts[0].value == "10.0\u00a0ms");
  // Of 4 layers and an output layer: 72 b L s h^2 (1 + s / 6h + v / 12hL) FLOPs in 10 ms on 8 A100.
  REQUIRE_THAT(facts[0].sentence, Contains("less than 0.1\u00a0% of the peak of its GPUs (MFU)"));
  REQUIRE(facts[1].value == "5.00\u00a0MiB");
  REQUIRE_THAT(facts[1].sentence,
               Contains("A GPU of stage 0 is less than 0.1\u00a0% full") &&
                   Contains("Of its 80.00\u00a0GiB, 78.00\u00a0GiB hold no tensor") &&
                   !Contains("free"));
  // 4 layers of 12 h^2 + 13 h, 512 h of vocabulary, 64 h of positions and a last norm of 2 h.
  REQUIRE_THAT(report_page({page}, "t", ""), Contains("236.93 thousand parameters on 8 × NVIDIA") &&
                                                 Contains(": not validated for ") &&
                                                 !Contains("its constants are public"));
  std::string const table = stage_table_html(page, "x");
  REQUIRE_THAT(table, Contains("time in ms, and its memory at the peak in MiB") &&
                          Contains("<td>4.000</td>") && Contains("<td>5.00</td>") &&
                          Contains("of the fullest"));
}

TEST_CASE("of an executed trace a page says what its clock and device allow, and nothing of GPUs") {
  for (auto const& [clock, origin, timed] :
       {std::tuple{TraceClock::wall, "executed on a CPU, 2 threads ", "Measured time of one"},
        {TraceClock::virtual_time, "executed on a CPU, 2 threads, communication modelled as on ",
         "with measured computation and modelled communication"},
        {TraceClock::solo, "executed on a CPU, 2 threads, one rank alone, the others modelled ",
         "Time of one rank alone"}}) {
    PageTrace const page = page_of(twin(clock, "a CPU, 2 threads"));
    std::string const whole = report_page({page}, "t", "");
    std::string const html = whole.substr(0, whole.find("timeline-heading"));
    CAPTURE(origin, html);
    REQUIRE_THAT(html, Contains(origin) && Contains(timed) && Contains("parameters on 8 ranks"));
    REQUIRE_THAT(html, !Contains("8 × NVIDIA") && !Contains("redicted") && !Contains("GPU"));
    bool const has_rate = html.find("tokens per second") != std::string::npos;
    REQUIRE(has_rate == (clock != TraceClock::solo));
    auto const facts = facts_of(page);
    REQUIRE_THAT(facts[1].sentence, Contains("whose memory is not in the trace. Of the 80.0"));
    // One stage: there is no other to wait for.
    REQUIRE(facts[2].value == "60.0\u00a0%");
    REQUIRE_THAT(facts[2].sentence,
                 Contains("waits for ranks of its stage") && !Contains("other stages"));
    REQUIRE(data_of(page)["capacity"].is_null());
  }
  // A GPU is named with its software, and is the one that the run is configured for.
  PageTrace const gpu = page_of(twin(TraceClock::wall, "NVIDIA A100-SXM4-80GB, driver 12.8"));
  REQUIRE(data_of(gpu)["capacity"] == std::int64_t{80} << 30);
}

TEST_CASE("a page of several traces names the keys in which their runs differ") {
  Trace const first = twin(TraceClock::simulated, "selene-a100");
  Trace second = first;
  second.meta.config = to_yaml(load_run_config(
      STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present-twin.yaml", {"parallel.sequence=false"}));
  std::string const html = summary_html({page_of(first), page_of(second), page_of(first)});
  REQUIRE_THAT(html, Contains("<code>parallel.sequence</code></th><td><code>true</code></td>"
                              "<td><code>false</code></td><td><code>true</code></td>"));
  REQUIRE_THAT(summary_html({page_of(first), page_of(first)}), !Contains("<code>"));
}

TEST_CASE("a page says that chunk detail knows memory at the ends of chunks only") {
  Trace const chunks = job();
  Trace const ops = twin(TraceClock::simulated, "selene-a100");
  REQUIRE_THAT(report_page({page_of(chunks)}, "t", ""),
               Contains("is recorded at chunk detail: what is held is known at the end of each"));
  REQUIRE_THAT(report_page({page_of(ops)}, "t", ""), !Contains("chunk detail"));
}

TEST_CASE("nothing of a trace is markup, and its data cannot end its script") {
  Trace trace = job();
  trace.names.op[0] = "</script><script>alert(1)</script>";
  trace.meta.command_line = "<b>&\"";
  trace.meta.device = "\xff<i>";
  std::string const page = report_page({page_of(trace)}, "<title>{{data}}", "<difference>");
  REQUIRE_THAT(page, Contains("&lt;title&gt;{{data}}") && Contains("&lt;difference&gt;") &&
                         Contains("&lt;b&gt;&amp;&quot;"));
  REQUIRE_THAT(page, Contains("\\u003c/script\\u003e"));
  std::size_t const data = page.find("<script");
  std::size_t const script = page.find("<script", data + 1);
  REQUIRE(script != std::string::npos);
  REQUIRE(page.find("<script", script + 1) == std::string::npos);
  REQUIRE(page.find("<b>&") == std::string::npos);
  REQUIRE(page.find("http://") == std::string::npos);
  REQUIRE(page.find("https://") == std::string::npos);
}

TEST_CASE("with more ops than a page can show, chunks are drawn and the page says so") {
  Trace trace = trace_of_rows({rank_of_rows(0, 0,
                                            {{.start = 0,
                                              .duration = 2,
                                              .op = op_matmul,
                                              .phase = in_forward,
                                              .microbatch = 0,
                                              .chunk = 0},
                                             {.start = 2,
                                              .duration = 2,
                                              .op = op_gelu,
                                              .phase = in_forward,
                                              .microbatch = 0,
                                              .chunk = 0}})});
  REQUIRE(data_of(page_of(trace))["ops"]["count"] == 2);
  PageTrace const reduced = page_of(trace, 1);
  REQUIRE(reduced.is_reduced);
  REQUIRE(data_of(reduced)["ops"]["count"] == 1);
  REQUIRE_THAT(report_page({reduced}, "t", ""), Contains("drawn by chunk"));
}

TEST_CASE("times beyond 2^52 ps are counted in a larger unit, which the page knows") {
  Trace const trace = trace_of_rows({rank_of_rows(
      0, 0, {{.start = 0, .duration = 9'000 * ns, .op = op_forward, .phase = in_forward}})});
  REQUIRE(data_of(page_of(trace))["unit"] == 1000);
  REQUIRE(data_of(page_of(trace))["end"] == 9'000 * ns);
}

TEST_CASE("text of a page replaces what is no UTF-8") {
  REQUIRE(html_text("a\xff<>") == "a\xef\xbf\xbd&lt;&gt;");
}

}  // namespace stagecraft::report_page_test
