#include "libsim/sweep/sweep_table.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "libsim/engine/store_window.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/sweep/evaluate_point.hpp"
#include "libsim/sweep/sweep_run.hpp"
#include "tests/libsim/sweep/sweep_files.hpp"

namespace stagecraft::sweep_table_test {
namespace {

constexpr char const* axes =
    "values:\n"
    "  recompute: [none, full, {granularity: selective, store_microbatches: auto}]\n"
    "  parallel.pipeline: [1, 2, 3]\n"
    "  parallel.sequence: [true, false]\n"
    "  model.dropout: [0, 0.1]\n"
    "  parallel.tensor: [1, 2, 4]\n"
    "where: [parallel.tensor * parallel.pipeline < 12]\n";

std::string bytes_of(std::filesystem::path const& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

ColumnFile table_with(SweepFolder const& folder, Sweep const& sweep, Shard shard, int jobs) {
  std::filesystem::path const path = folder.path("journal-" + std::to_string(shard.number));
  SweepJournal journal{path, {"v", sweep.fingerprint, shard.text()}, SweepJournal::Open::created};
  run_sweep(sweep, shard, jobs, journal, [](std::int64_t) {});
  ColumnFile table = table_of(sweep, shard, journal);
  journal.remove();
  return table;
}

template <typename Value>
std::vector<Value> const& column(ColumnFile const& table, std::string const& name) {
  auto const found = std::find_if(table.columns.begin(), table.columns.end(),
                                  [&](NamedColumn const& one) { return one.name == name; });
  CAPTURE(name);
  REQUIRE(found != table.columns.end());
  return std::get<std::vector<Value>>(found->values);
}

/// A row's number under the name of a column, as a member of the document of `simulate --json`.
nlohmann::json member(nlohmann::json const& document, std::string_view name) {
  for (std::string const section : {"layer", "breakdown_seconds"}) {
    if (!name.starts_with(section + "_")) continue;
    std::string key{name.substr(section.size() + 1)};
    if (document.at(section).is_null()) return nullptr;
    return document.at(section).at(key);
  }
  return document.at(std::string{name});
}

}  // namespace

TEST_CASE("a row holds the numbers of the simulation's document, to the last digit", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = folder.sweep(axes);
  ColumnFile const table = table_with(folder, sweep, {}, 2);
  auto const& points = column<std::int64_t>(table, "index");
  auto const& valid = column<std::int64_t>(table, "valid");
  REQUIRE(std::is_sorted(points.begin(), points.end()));
  int compared = 0;
  for (std::size_t row = 0; row < points.size(); ++row) {
    std::vector<std::size_t> entries;
    choose_entries(sweep.axes, points[row], entries);
    CAPTURE(settings_text(sweep.axes, entries));
    RunConfig run;
    try {
      run = run_of(sweep, entries);
    } catch (ConfigError const& error) {
      REQUIRE(valid[row] == 0);
      REQUIRE_FALSE(column<std::string>(table, "message")[row].empty());
      REQUIRE(std::isnan(column<double>(table, "mfu")[row]));
      for (IntegerColumn const& integer : integer_columns()) {
        REQUIRE(std::isnan(column<double>(table, std::string{integer.name})[row]));
      }
      continue;
    }
    REQUIRE(valid[row] == 1);
    TrainingPlan const plan =
        make_plan(as_settled(resolve_store_windows(run.training, run.system)));
    nlohmann::json const document =
        simulation_results(simulate(plan, run.system), plan, run.system);
    for (RealColumn const& real : real_columns()) {
      CAPTURE(real.name);
      nlohmann::json const expected = member(document, real.name);
      double const found = column<double>(table, std::string{real.name})[row];
      REQUIRE((expected.is_null() ? std::isnan(found) : found == expected.get<double>()));
      ++compared;
    }
    std::int64_t peak = 0;
    std::int64_t activations = 0;
    bool fits = true;
    for (auto const& stage : document.at("stages")) {
      peak = std::max(peak, stage.at("peak_bytes").get<std::int64_t>());
      activations = std::max(activations, stage.at("activation_peak_bytes").get<std::int64_t>());
      fits = fits && stage.at("fits").get<bool>();
    }
    auto const integer = [&](std::string const& name) {
      return static_cast<std::int64_t>(column<double>(table, name)[row]);
    };
    auto const key = [&](std::string const& name) {
      return column<std::int64_t>(table, name)[row];
    };
    REQUIRE(integer("peak_bytes") == peak);
    auto const fullest = static_cast<std::size_t>(integer("fullest_stage"));
    REQUIRE(document.at("stages")[fullest].at("peak_bytes") == peak);
    REQUIRE(integer("activation_peak_bytes") == activations);
    REQUIRE(integer("fits") == (fits ? 1 : 0));
    REQUIRE(integer("parameters") == document.at("parameters"));
    REQUIRE(integer("gpus") == key("parallel.tensor") * key("parallel.pipeline"));
    nlohmann::json const saved = member(document, "layer_saved_bytes");
    REQUIRE((saved.is_null() ? std::isnan(column<double>(table, "layer_saved_bytes")[row])
                             : integer("layer_saved_bytes") == saved.get<std::int64_t>()));
    REQUIRE(column<std::string>(table, "plan")[row] == document.at("plan"));
  }
  REQUIRE(compared > 500);
  // 4 layers do not fall evenly onto 3 stages.
  REQUIRE(std::count(valid.begin(), valid.end(), 0) > 10);
}

TEST_CASE("key columns have the type of their values", "[sweep]") {
  SweepFolder const folder;
  ColumnFile const table = table_with(folder, folder.sweep(axes), {}, 1);
  REQUIRE(column<std::int64_t>(table, "parallel.tensor")[1] == 2);
  REQUIRE(column<std::int64_t>(table, "parallel.sequence")[0] == 1);
  REQUIRE(column<double>(table, "model.dropout")[3] == 0.1);
  REQUIRE(column<std::string>(table, "recompute").front() == "none");
  REQUIRE(column<std::string>(table, "recompute").back() ==
          "{granularity: selective, store_microbatches: auto}");
}

TEST_CASE("a key that only some cases set has the base's value in the others", "[sweep]") {
  SweepFolder const folder;
  ColumnFile const table = table_with(
      folder,
      folder.sweep(
          "cases: {c: {a: {parallel.tensor: 4}, b: {recompute: full}, c: {batch.global: 16}}}\n"),
      {}, 1);
  REQUIRE(column<std::string>(table, "c") == std::vector<std::string>{"a", "b", "c"});
  REQUIRE(column<std::int64_t>(table, "parallel.tensor") == std::vector<std::int64_t>{4, 2, 2});
  REQUIRE(column<std::int64_t>(table, "batch.global") == std::vector<std::int64_t>{8, 8, 16});
  REQUIRE(column<std::string>(table, "recompute") == std::vector<std::string>{"", "full", ""});
}

TEST_CASE("threads and shards change no byte of the results", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = folder.sweep(axes);
  write_sweep_table(table_with(folder, sweep, {}, 1), folder.path("whole.h5"),
                    folder.path("whole.csv"));
  std::string const whole = bytes_of(folder.path("whole.h5"));
  REQUIRE(whole.size() > 1000);
  write_sweep_table(table_with(folder, sweep, {}, 5), folder.path("five.h5"), {});
  REQUIRE(bytes_of(folder.path("five.h5")) == whole);
  int const count = GENERATE(2, 5);
  std::vector<std::filesystem::path> shards;
  for (int number = count; number >= 1; --number) {
    shards.push_back(folder.path(std::to_string(number) + ".h5"));
    write_sweep_table(table_with(folder, sweep, {number, count}, 2), shards.back(), {});
  }
  write_sweep_table(merge_shards(shards), folder.path("merged.h5"), folder.path("merged.csv"));
  REQUIRE(bytes_of(folder.path("merged.h5")) == whole);
  REQUIRE(bytes_of(folder.path("merged.csv")) == bytes_of(folder.path("whole.csv")));
}

TEST_CASE("a file of results reads back as it was written", "[sweep]") {
  SweepFolder const folder;
  ColumnFile const table = table_with(folder, folder.sweep(axes), {}, 2);
  write_sweep_table(table, folder.path("r.h5"), {});
  ColumnFile const read = read_sweep_table(folder.path("r.h5"));
  REQUIRE(read.attributes == table.attributes);
  REQUIRE(read.columns.size() == table.columns.size());
  for (std::size_t i = 0; i < read.columns.size(); ++i) {
    CAPTURE(table.columns[i].name);
    REQUIRE(read.columns[i].name == table.columns[i].name);
    REQUIRE(read.columns[i].unit == table.columns[i].unit);
    // Numbers that are none are unequal to themselves, and equal as they are written.
    if (!std::holds_alternative<std::vector<double>>(table.columns[i].values)) {
      REQUIRE(read.columns[i].values == table.columns[i].values);
    }
  }
  REQUIRE(column_file_image(read, "r.h5") == bytes_of(folder.path("r.h5")));
}

TEST_CASE("shards that are missing, doubled, foreign or damaged are refused by name", "[sweep]") {
  SweepFolder const folder;
  Sweep const sweep = folder.sweep(axes);
  for (int number = 1; number <= 3; ++number) {
    write_sweep_table(table_with(folder, sweep, {number, 3}, 2),
                      folder.path(std::to_string(number) + ".h5"), {});
  }
  write_sweep_table(table_with(folder, sweep, {2, 4}, 2), folder.path("of-four.h5"), {});
  std::filesystem::copy_file(folder.path("2.h5"), folder.path("copy.h5"));
  std::string damaged = bytes_of(folder.path("3.h5"));
  folder.write("cut.h5", damaged.substr(0, damaged.size() / 2));
  folder.write("text.h5", "index\n1\n");
  Sweep const other = folder.sweep("values: {parallel.tensor: [1, 2]}\n");
  write_sweep_table(table_with(folder, other, {3, 3}, 2), folder.path("other.h5"), {});
  auto const refusal = [&](std::vector<std::string> const& names) -> std::string {
    std::vector<std::filesystem::path> paths;
    for (std::string const& name : names) paths.push_back(folder.path(name));
    try {
      static_cast<void>(merge_shards(paths));
    } catch (InputError const& error) {
      return error.what();
    }
    return {};
  };
  using Catch::Contains;
  REQUIRE_THAT(refusal({"1.h5", "3.h5"}), Contains("found no file for the shards 2/3"));
  REQUIRE_THAT(refusal({"1.h5", "2.h5", "copy.h5", "3.h5"}),
               Contains("copy.h5: found shard 2/3 again") && Contains("2.h5 is the same"));
  REQUIRE_THAT(refusal({"1.h5", "2.h5", "other.h5"}), Contains("other.h5: found rows of another"));
  REQUIRE_THAT(refusal({"1.h5", "of-four.h5"}), Contains("of-four.h5: found shard 2/4"));
  REQUIRE_THAT(refusal({"1.h5", "2.h5", "cut.h5"}), Contains("cut.h5: "));
  REQUIRE_THAT(refusal({"1.h5", "2.h5", "text.h5"}), Contains("text.h5: is not an HDF5 file"));
  REQUIRE_THAT(refusal({"1.h5", "2.h5", "none.h5"}), Contains("none.h5: there is no such file"));
  REQUIRE(refusal({"3.h5", "1.h5", "2.h5"}).empty());
}

}  // namespace stagecraft::sweep_table_test
