#include "libsim/validation/validation.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/validation/validation_output.hpp"
#include "libsim/validation/validation_summary.hpp"

namespace stagecraft::validation_test {
namespace {

constexpr char const* paper = STAGECRAFT_SOURCE_DIR "/configs/paper/";

Validation validate_text(std::string const& text,
                         std::vector<std::string> const& by = {},
                         int jobs = 2) {
  std::vector<DataFile> files;
  files.emplace_back(text, "f.csv");
  return validate(files, load_run_variants(std::string{paper} + "22b-present.yaml", {}), by, jobs,
                  [](std::int64_t /*rows*/) {});
}

/// A row with a time ratio that is known, without any file.
ValidatedRow timed_row(std::string const& group, double predicted, double measured) {
  ValidatedRow row;
  row.measured.group = group;
  row.measured.iteration_seconds = measured;
  row.predicted_seconds = predicted;
  return row;
}

std::string json_text(Validation const& validation) {
  std::ostringstream out;
  write_json(validation, out);
  return out.str();
}

}  // namespace

TEST_CASE("a row's prediction is what simulate says of its run, and rows keep their order",
          "[validation]") {
  Validation const validation = validate_text(
      "id,recompute,measured.iteration_seconds,measured.stage,measured.allocated_bytes\n"
      "a,selective,1.10,,50e9\nb,full,1.42,0,\n");
  REQUIRE(validation.rows.size() == 2);
  REQUIRE(validation.rows[0].measured.id == "a");
  RunConfig const run =
      load_run_config(std::string{paper} + "22b-present.yaml", {"recompute=full"});
  Simulation const simulation = simulate(make_plan(as_settled(run.training)), run.system);
  REQUIRE(validation.rows[1].predicted_seconds == to_seconds(simulation.iteration));
  REQUIRE(validation.rows[1].predicted_allocated_bytes == simulation.stages[0].peak());
  REQUIRE(validation.rows[1].predicted_fits == simulation.stages[0].fits);
  REQUIRE(validation.rows[1].time_ratio() == Approx(to_seconds(simulation.iteration) / 1.42));
}

TEST_CASE("a bad row is left out and counted, and the others are predicted", "[validation]") {
  Validation const validation = validate_text(
      "id,parallel.tensor,measured.iteration_seconds\na,8,1.1\nb,7,1.1\nc,8,-3\nd,8,1.2\n");
  ValidationSummary const summary = summarize(validation);
  REQUIRE(summary.rows == 4);
  REQUIRE(summary.problems == 2);
  REQUIRE(summary.timed == 2);
  REQUIRE_FALSE(validation.rows[1].predicted_seconds);
  REQUIRE(validation.rows[3].predicted_seconds);
  std::string const text = validation_text(validation);
  REQUIRE_THAT(text, Catch::Contains("2 rows left out because of a problem\n") &&
                         Catch::Contains("f.csv:3:3: parallel.tensor: found '7'") &&
                         Catch::Contains("f.csv:4:5: measured.iteration_seconds: found '-3'"));
}

TEST_CASE("rows with one kind of problem are counted together, and name what each found",
          "[validation]") {
  Validation const validation = validate_text(
      "parallel.tensor,measured.iteration_seconds\n7,1\n5,1\n7,1\n9,1\n10,1\n11,1\n13,1\n");
  REQUIRE_THAT(problems_text(validation, 10),
               Catch::Contains("f.csv:2:1: parallel.tensor: found '7'") &&
                   Catch::Contains(" (7 rows; also '5', '9', '10', ...)\n"));
}

TEST_CASE("a problem at a key of the base names the row that causes it", "[validation]") {
  // 22B trains 4 sequences per iteration.
  Validation const validation =
      validate_text("batch.micro,measured.iteration_seconds\n3,1.1\n1,1.1\n");
  REQUIRE(validation.rows[0].problems.size() == 1);
  REQUIRE(
      problem_line(validation.rows[0], validation.rows[0].problems[0]).starts_with("f.csv:2:1: "));
  REQUIRE(validation.rows[1].problems.empty());
}

TEST_CASE("a group of 7 timed rows has no regret, one of 8 has", "[validation]") {
  Validation validation;
  for (int i = 0; i < 7; ++i) validation.rows.push_back(timed_row("g", 1 + i, 10 + i));
  for (int i = 0; i < 9; ++i) validation.rows.push_back(timed_row("", 1, 1));
  REQUIRE_FALSE(summarize(validation).ranking);
  // Predicted fastest of all, and measured 10 % above the fastest.
  validation.rows.push_back(timed_row("g", 0.5, 11));
  RankingSummary const ranking = summarize(validation).ranking.value();
  REQUIRE(ranking.groups == 1);
  REQUIRE(ranking.mean_regret == Approx(0.1));
  REQUIRE(ranking.largest_regret == Approx(0.1));
  REQUIRE(ranking.rank_correlation.has_value());
}

TEST_CASE("regret and Spearman are means over groups, the largest regret is the largest",
          "[validation]") {
  Validation validation;
  for (int i = 0; i < 8; ++i) {
    validation.rows.push_back(timed_row("right", 1 + i, 10 + i));
    validation.rows.push_back(timed_row("reversed", 1 + i, 20 - i));  // chosen 20, least 13
  }
  RankingSummary const ranking = summarize(validation).ranking.value();
  REQUIRE(ranking.groups == 2);
  REQUIRE(ranking.largest_regret == Approx(20.0 / 13 - 1));
  REQUIRE(ranking.mean_regret == Approx((20.0 / 13 - 1) / 2));
  REQUIRE(ranking.rank_correlation == Approx(0).margin(1e-12));
}

TEST_CASE("fit accuracy counts the rows whose verdict was measured", "[validation]") {
  Validation validation;
  for (auto const& [predicted, measured] : std::vector<std::pair<bool, std::optional<bool>>>{
           {true, true}, {true, false}, {false, true}, {false, false}, {true, {}}}) {
    ValidatedRow& row = validation.rows.emplace_back();
    row.predicted_fits = predicted;
    row.measured.fits = measured;
  }
  ValidationSummary const summary = summarize(validation);
  REQUIRE(summary.verdicts == 4);
  REQUIRE(summary.wrong_fits == 1);
  REQUIRE(summary.wrong_refusals == 1);
  REQUIRE(summary.fit_accuracy() == 0.5);
  REQUIRE_FALSE(summary.time);
}

TEST_CASE("regimes are the values of the effective configuration, numbers in their order",
          "[validation]") {
  Validation const validation = validate_text(
      "group,parallel.tensor,model.vocabulary,measured.iteration_seconds\nx,8,,1.1\nx,4,,1.2\n"
      "y,,,1.3\ny,5,,1\n",
      {"parallel.tensor", "recompute", "model.kv_heads", "system", "group"});
  std::vector<std::string> names;
  for (Regime const& regime : regimes_of(validation)) {
    names.push_back(regime.key + "=" + regime.value + " " + std::to_string(regime.summary.rows));
  }
  REQUIRE(names == std::vector<std::string>{"parallel.tensor=4 1", "parallel.tensor=8 2",
                                            "recompute=selective 3", "model.kv_heads=64 3",
                                            "system=selene-a100 3", "group=x 2", "group=y 1"});
}

TEST_CASE("a key that rows do not have cannot divide them into regimes", "[validation]") {
  REQUIRE_THROWS_WITH(
      validate_text("measured.iteration_seconds\n1\n", {"parallel.tensr"}),
      "--by: found 'parallel.tensr'; accepted: keys of a run file, or group, with commas between "
      "them; did you mean 'parallel.tensor'?");
}

TEST_CASE("the number of threads does not change a byte of the result", "[validation]") {
  std::string text = "id,group,parallel.tensor,batch.micro,recompute,measured.iteration_seconds\n";
  for (int i = 0; i < 60; ++i) {
    text += "r" + std::to_string(i) + ",g" + std::to_string(i % 3) + "," +
            std::to_string(1 << (i % 4)) + "," + std::to_string(1 + i % 2) + "," +
            (i % 5 == 0 ? "full" : "none") + "," + std::to_string(i - 2) + "\n";
  }
  std::string const one = json_text(validate_text(text, {"parallel.tensor"}, 1));
  REQUIRE(json_text(validate_text(text, {"parallel.tensor"}, 7)) == one);
}

TEST_CASE("the JSON document has every field, null where nothing was measured", "[validation]") {
  auto const json = nlohmann::json::parse(
      json_text(validate_text("id,measured.iteration_seconds\na,1.10\nb,\nc,x\n")));
  REQUIRE(json.at("schema") == "stagecraft.validation/1");
  REQUIRE(json.at("rows").size() == 3);
  REQUIRE(json.at("rows")[0].at("problem").is_null());
  double const predicted = json.at("rows")[0].at("predicted_seconds").get<double>();
  REQUIRE(json.at("rows")[0].at("error_percent").get<double>() ==
          Approx(100 * (predicted / 1.10 - 1)));
  REQUIRE(json.at("rows")[1].at("error_percent").is_null());
  REQUIRE(json.at("rows")[1].at("predicted_seconds") == predicted);
  REQUIRE(json.at("rows")[2].at("predicted_seconds").is_null());
  REQUIRE_THAT(json.at("rows")[2].at("problem").get<std::string>(),
               Catch::StartsWith("f.csv:4:3: measured.iteration_seconds: found 'x'"));
  REQUIRE(json.at("summary").at("rows") == 3);
  REQUIRE(json.at("summary").at("timed_rows") == 1);
  REQUIRE(json.at("summary").at("spearman").is_null());
  REQUIRE(json.at("by").empty());
}

}  // namespace stagecraft::validation_test
