#include "libsim/sweep/sweep_reader.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/sweep/point_source.hpp"
#include "libsim/sweep/sweep_check.hpp"
#include "tests/libsim/sweep/sweep_files.hpp"

namespace stagecraft::sweep_reader_test {
namespace {

using Catch::Contains;

std::string settings_of(Sweep const& sweep, std::int64_t point) {
  std::vector<std::size_t> entries;
  choose_entries(sweep.axes, point, entries);
  return settings_text(sweep.axes, entries);
}

std::int64_t passing(Sweep const& sweep) {
  return count_points(sweep, 2, [](double) {});
}

std::string check_complaint(std::string const& rest) {
  SweepFolder const folder;
  Sweep const sweep = folder.sweep(rest);
  try {
    static_cast<void>(check_sweep(sweep));
  } catch (ConfigError const& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("points count like an odometer, groups before keys, the last key fastest", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = folder.sweep(
      "values: {parallel.tensor: [1, 2], batch.micro: [1, 2, 4]}\n"
      "cases: {policy: {a: {recompute: none}, b: {recompute: full, parallel.sequence: true}}}\n");
  REQUIRE(sweep.points == 12);
  REQUIRE(settings_of(sweep, 0) == "policy=a, parallel.tensor=1, batch.micro=1");
  REQUIRE(settings_of(sweep, 1) == "policy=a, parallel.tensor=1, batch.micro=2");
  REQUIRE(settings_of(sweep, 3) == "policy=a, parallel.tensor=2, batch.micro=1");
  REQUIRE(settings_of(sweep, 11) == "policy=b, parallel.tensor=2, batch.micro=4");
}

TEST_CASE("a point's run is the base with the point's keys set", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = folder.sweep(
      "values: {parallel.tensor: [1, 2, 4], schedule.p2p: [overlapped]}\n"
      "cases: {policy: {b: {recompute: full, parallel.sequence: true}}}\n");
  RunConfig const run = run_of(sweep, {0, 2, 0});
  REQUIRE(run.training.parallel.tensor == 4);
  REQUIRE(run.training.parallel.sequence);
  REQUIRE(run.training.recompute.front().granularity == RecomputeGranularity::full);
  REQUIRE(run.training.schedule.p2p == P2p::overlapped);
  REQUIRE(run.training.batch.global == 8);
}

TEST_CASE("a value that names a file is looked for beside the sweep file", "[sweep]") {
  SweepFolder const folder;
  folder.write("deep.yaml", "{layers: 6, hidden: 64, heads: 4, sequence: 16, vocabulary: 256}\n");
  Sweep const sweep = folder.sweep("values: {model: [deep.yaml], model.heads: [2, 4]}\n");
  REQUIRE(run_of(sweep, {0, 1}).training.model.layers == 6);
  REQUIRE(run_of(sweep, {0, 0}).training.model.heads == 2);
  REQUIRE_THAT(complaint_of("values: {model: [no-such.yaml]}\n"),
               Contains("sweep.yaml:7:18: model: ") && Contains("no-such.yaml"));
}

TEST_CASE("conditions see keys as the point has them: swept, else the base's, else the default",
          "[sweep]") {
  SweepFolder const folder;
  auto const count = [&](std::string const& condition) {
    return passing(folder.sweep(
        "values: {parallel.tensor: [1, 2, 4], recompute: [none, {granularity: full, layers: 2}]}\n"
        "cases: {size: {small: {}, big: {model: {layers: 8, hidden: 64, heads: 4, sequence: 16, "
        "vocabulary: 256}}}}\n"
        "where: ['" +
        condition + "']\n"));
  };
  REQUIRE(count("parallel.tensor > 1") == 8);
  REQUIRE(count("recompute == full") == 6);
  REQUIRE(count("recompute.granularity != none") == 6);
  REQUIRE(count("model.layers == 8") == 6);
  REQUIRE(count("size == small and parallel.tensor == 4") == 2);
  REQUIRE(count("parallel.tensor * parallel.data < batch.global / 2") == 8);
  REQUIRE(count("memory.output_deallocation") == 12);
  REQUIRE(count("schedule == gpipe") == 0);
  REQUIRE(count("layout == even") == 12);
}

TEST_CASE("conditions on keys without a value are refused", "[sweep]") {
  std::string const axis = "values: {parallel.tensor: [1, 2], recompute: [none, full]}\n";
  REQUIRE_THAT(complaint_of(axis + "where: [paralel.tensor > 1]\n"),
               Contains("sweep.yaml:8:9: where") && Contains("paralel.tensor") &&
                   Contains("did you mean 'parallel.tensor'?"));
  // Its default is that of another key.
  REQUIRE_THAT(complaint_of(axis + "where: [model.kv_heads > 1]\n"), Contains("model.kv_heads"));
  REQUIRE_THAT(complaint_of(axis + "where: [recompute > 1]\n"),
               Contains("recompute as a number, but it can be 'none'"));
}

TEST_CASE("what is wrong with a sweep file is said with its place, all at once", "[sweep]") {
  REQUIRE_THAT(complaint_of("valeus: {parallel.tensor: [1]}\n"),
               Contains("sweep.yaml:7:1: valeus: found an unknown key") &&
                   Contains("did you mean 'values'?"));
  std::string const several = complaint_of(
      "values: {parallel.tensr: [1, 2], recompute: [selectiv, full], batch.micro: [x]}\n");
  REQUIRE_THAT(several, Contains("sweep.yaml:7:") && Contains("parallel.tensr: found an unknown") &&
                            Contains("did you mean 'tensor'?"));
  REQUIRE_THAT(several, Contains("found 'selectiv'; accepted: none, selective, full"));
  REQUIRE_THAT(several, Contains("batch.micro: found 'x'"));
  REQUIRE_THAT(complaint_of("values: {parallel.tensor: 4}\n"), Contains("a list of values"));
  REQUIRE_THAT(complaint_of("values: {parallel.tensor: []}\n"),
               Contains("parallel.tensor: found an empty list; accepted: a list of values"));
  REQUIRE_THAT(complaint_of("values: {parallel.tensor: [2, 1, 2]}\n"), Contains("each value once"));
  REQUIRE_THAT(complaint_of("values: {mfu: [1]}\n"), Contains("no column of results"));
  REQUIRE_THAT(complaint_of("cases: {model: {a: {}}}\n"), Contains("cases: found 'model'"));
  REQUIRE_THAT(complaint_of("cases: {size: {a: [1]}}\n"), Contains("a map of keys"));
  REQUIRE_THAT(complaint_of("cases: {size: {a: {batch.micro: 1}}}\nvalues: {batch.micro: [1]}\n"),
               Contains("each key once"));
  REQUIRE_THAT(complaint_of("values: {parallel.tensor: [1], parallel: [{tensor: 2}]}\n"),
               Contains("which it undoes"));
  REQUIRE_THAT(complaint_of(""), Contains("what is to vary"));
}

TEST_CASE("all parts of a sweep file are read before anything is refused", "[sweep]") {
  std::string const all = complaint_of(
      "valeus: {parallel.tensor: [1]}\n"
      "cases: {size: {a: [1]}, strategy: 3}\n"
      "values: {parallel.tensr: [1, 2, 4], batch.micro: [], recompute: [none, ful]}\n"
      "where:\n"
      "  - parallel.tensor >\n"
      "  - paralel.tensor > 1\n"
      "  - schedule == gpip\n"
      "  - batch.micro > 1 or strategy == x or size == a\n");
  CAPTURE(all);
  for (std::string const part :
       {"sweep.yaml:7:1: valeus: found an unknown key",
        "sweep.yaml:8:19: cases.size.a: found a list",
        "sweep.yaml:8:35: cases.strategy: found a text",
        "sweep.yaml:9:10: parallel.tensr: found an unknown key", "did you mean 'tensor'?",
        "sweep.yaml:9:50: batch.micro: found an empty list",
        "sweep.yaml:9:72: recompute: found 'ful'; accepted: none, selective, full",
        "sweep.yaml:11:5: where: found its end", "sweep.yaml:12:5: where: found the key 'paralel",
        "sweep.yaml:13:5: where: found 'gpip', which schedule can never be; accepted: gpipe, 1f1b, "
        "interleaved, zb_h1",
        "did you mean 'gpipe'?"}) {
    CAPTURE(part);
    REQUIRE_THAT(all, Contains(part));
  }
  // A line a problem: an unknown key once for all its values, and nothing that only follows.
  REQUIRE(std::count(all.begin(), all.end(), '\n') == 8);
  REQUIRE(all.find("did you mean 'gpipe'?") == all.rfind("did you mean 'gpipe'?"));
  REQUIRE_THAT(complaint_of("vales: {parallel.tensor: []}\nbse: x.yaml\n"),
               Contains("vales: found") && Contains("bse: found") && !Contains("base: found") &&
                   !Contains("what is to vary"));
}

TEST_CASE("a base that cannot be read does not hide what is wrong with the rest", "[sweep]") {
  SweepFolder const folder;
  std::string const text =
      "base: nowhere.yaml\nvalues: {parallel.tensor: 4}\nwhere: [parallel.tensor >]\n";
  try {
    static_cast<void>(load_sweep(folder.write("sweep.yaml", text)));
    FAIL("it was accepted");
  } catch (ConfigError const& error) {
    REQUIRE(error.problems().size() == 3);
  }
}

TEST_CASE("a word that a key cannot be is refused, one that no value of the sweep is, is not",
          "[sweep]") {
  std::string const axes =
      "cases: {size: {small: {}, big: {model.layers: 8}}}\n"
      "values: {parallel.tensor: [1, 2], recompute: [none, full], parallel.sequence: [true, false]}"
      "\n";
  auto const complaint = [&](std::string const& condition) {
    return complaint_of(axes + "where: ['" + condition + "']\n");
  };
  for (std::string const condition :
       {"recompute != selective", "recompute.granularity in [full, selective]", "size == big",
        "parallel.sequence == true", "schedule == gpipe", "schedule.p2p == overlapped"}) {
    CAPTURE(condition);
    REQUIRE(complaint(condition).empty());
  }
  REQUIRE_THAT(complaint("size == bigg"), Contains("accepted: small, big; did you mean 'big'?"));
  REQUIRE_THAT(complaint("schedule in [gpipe, interleavd]"),
               Contains("did you mean 'interleaved'"));
  REQUIRE_THAT(complaint("parallel.tensor == two"), Contains("a whole number from 1"));
  REQUIRE_THAT(complaint("siz == big"), Contains("did you mean 'size'?"));
}

TEST_CASE("a condition that divides by zero at a point names it", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = folder.sweep(
      "values: {parallel.tensor: [1, 2], batch.micro: [2, 1]}\n"
      "where: [8 / (parallel.tensor - batch.micro) > 0]\n");
  REQUIRE_THROWS_WITH(passing(sweep),
                      Contains("sweep.yaml:8:9: where: found a division by zero in '8 / (") &&
                          Contains("where parallel.tensor="));
  REQUIRE(passing(folder.sweep(
              "values: {parallel.tensor: [1, 2], batch.micro: [2, 1]}\n"
              "where: [parallel.tensor > batch.micro and 8 / (parallel.tensor - batch.micro) > 0]"
              "\n")) == 1);
}

TEST_CASE("a number of chunks that the schedule cannot have is refused in one sentence",
          "[sweep]") {
  REQUIRE_THAT(check_complaint("values: {parallel.interleave: [1, 2]}\n"),
               Contains("parallel.interleave: found '2' beside schedule.kind '1f1b'; accepted: "
                        "another value, or beside it schedule.kind interleaved, as "
                        "parallel.interleave is 2; no point of the sweep can have it"));
}

TEST_CASE("a value that no point can have is refused, one that some points can have is not",
          "[sweep]") {
  // 4 heads: tensor 3 never divides them; 6 heads come with the second case only.
  REQUIRE_THAT(check_complaint("values: {parallel.tensor: [1, 3], batch.micro: [1, 2]}\n"),
               Contains("sweep.yaml:7:31: parallel.tensor: found '3'") &&
                   Contains("no point of the sweep can have it"));
  // 8 sequences on 3 replicas: the problem is one of batch.global, which the sweep leaves alone.
  REQUIRE_THAT(check_complaint("values: {parallel.data: [1, 2, 3]}\n"),
               Contains("sweep.yaml:7:32: parallel.data: found '3' beside batch.global '8'; "
                        "accepted: another value, or beside it batch.global a multiple of ") &&
                   Contains("no point of the sweep can have it"));
  REQUIRE(check_complaint("cases: {m: {four: {}, six: {model.heads: 6, model.hidden: 96}}}\n"
                          "values: {parallel.tensor: [1, 3]}\n")
              .empty());
}

TEST_CASE("where no point looked at is possible no value is to blame, but what most fail of",
          "[sweep]") {
  // 289 points with a value, of which 256 are looked at. Odd numbers of heads never divide 64.
  auto const odd_from_3 = [] {
    std::string list = "[3";
    for (int i = 5; i <= 35; i += 2) list += ", " + std::to_string(i);
    return list + "]";
  };
  std::string const text = "values:\n  training.seed: " + odd_from_3() +
                           "\n  training.clip: " + odd_from_3() +
                           "\n  model.heads: " + odd_from_3() + "\n";
  SweepFolder const folder;
  std::vector<std::string> const warnings = check_sweep(folder.sweep(text));
  REQUIRE(warnings.size() == 1);
  REQUIRE_THAT(warnings[0], Contains("examined points is possible; the most common reason: ") &&
                                Contains("model.h"));
  std::size_t const first = warnings[0].find("accepted:");
  REQUIRE(first != std::string::npos);
  REQUIRE(warnings[0].find("accepted:", first + 1) == std::string::npos);
  // All that there are of few points: an error, which blames no seed.
  REQUIRE_THAT(check_complaint("values: {training.seed: [1, 2], model.heads: [3, 5]}\n"),
               Contains("model.heads: found '3'") && Contains("model.heads: found '5'") &&
                   !Contains("seed"));
}

TEST_CASE("a sweep without any possible point is refused with the reason", "[sweep]") {
  REQUIRE_THAT(check_complaint("values: {parallel.data: [3, 5]}\n"),
               Contains("batch.global") && !Contains("no point"));
}

}  // namespace stagecraft::sweep_reader_test
