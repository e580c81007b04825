#include "libsim/fit/fit_output.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

using Json = nlohmann::ordered_json;

constexpr double repeated_runs = 0.005;  ///< how much iterations of repeated runs differ

Json errors_json(std::optional<PredictionErrors> const& errors) {
  if (!errors) return nullptr;
  return {{"mean_percent", 100 * errors->mean},
          {"median_percent", 100 * errors->median},
          {"p90_percent", 100 * errors->p90},
          {"bias_percent", 100 * errors->bias},
          {"spread_percent", 100 * errors->spread}};
}

Json constant_json(FittedConstant const& constant) {
  Json nearest = nullptr;
  if (!constant.nearest.empty()) {
    nearest = {{"key", constant.nearest}, {"correlation", constant.correlation}};
  }
  return {{"key", constant.choice.key},
          {"with", constant.choice.followers},
          {"unit", text_or_null(constant.unit)},
          {"value", constant.value},
          {"prior", constant.prior},
          {"prior_spread", constant.spread},
          {"standard_error", constant.standard_error},
          {"separable", constant.separable},
          {"nearest", nearest}};
}

void add_errors(std::string const& name,
                std::size_t runs,
                PredictionErrors const& errors,
                TextTable& table) {
  table.add_row({name, std::to_string(runs), decimals(100 * errors.mean, 1),
                 decimals(100 * errors.median, 1), decimals(100 * errors.p90, 1),
                 signed_decimals(100 * errors.bias, 1)});
}

/// A value with as many digits as say something, in its unit.
std::string value_text(double value, std::string const& unit) {
  double shown = value;
  std::string shown_unit = unit;
  if (unit == "s" && value < 0.1) {
    bool const is_short = value < 1e-3;
    shown = value * (is_short ? 1e6 : 1e3);
    shown_unit = is_short ? "us" : "ms";
  } else if (unit == "B/s") {
    shown = value / 1e9;
    shown_unit = "GB/s";
  }
  int const digits = std::max(0, 3 - static_cast<int>(std::floor(std::log10(std::abs(shown)))));
  return decimals(shown, std::min(digits, 6)) + (shown_unit.empty() ? "" : " " + shown_unit);
}

/// Explains what +- of fitted constants means.
std::string error_note(Fit const& fit) {
  if (fit.groups == 1) {
    return "+- of a fitted constant: if runs err independently. All are of one group (column "
           "`group`): what they\nhave in common, a cluster or a week, may move constants "
           "further.\n";
  }
  if (!fit.held_out) {
    return "+- of a fitted constant: the larger of what follows if runs err independently and if "
           "each group errs\nas a whole. All groups are in one fold, so none was left out.\n";
  }
  return "+- of a fitted constant: the largest of what follows if runs err independently, if each "
         "group errs as a\nwhole, and from leaving out each fold.\n";
}

std::string constants_table(Fit const& fit) {
  TextTable table{{{"constant", Align::left},
                   {"prior"},
                   {"+- %"},
                   {"fitted"},
                   {"+- %"},
                   {"goes with", Align::left}}};
  for (FittedConstant const& constant : fit.constants) {
    std::string nearest;
    if (std::abs(constant.correlation) >= 0.5) {
      nearest = constant.nearest + " (" + signed_decimals(constant.correlation, 2) + ")";
    }
    std::string key = constant.choice.key;
    for (std::string const& follower : constant.choice.followers) {
      key += " " + follower.substr(follower.rfind('.') + 1);
    }
    table.add_row({key, value_text(constant.prior, constant.unit),
                   decimals(100 * constant.spread, 0),
                   constant.separable ? value_text(constant.value, constant.unit) : "not separable",
                   decimals(100 * constant.standard_error / constant.value, 1), nearest});
  }
  return table.text();
}

}  // namespace

Json to_json(Fit const& fit, FitData const& data, std::vector<std::string> const& files) {
  auto const fold_json = [](FitFold const& fold) {
    Json json{{"fold", fold.fold}, {"groups", fold.groups}, {"runs", fold.runs}};
    json.update(errors_json(fold.errors));
    return json;
  };
  return {{"schema", fit_schema},
          {"system", data.system.name},
          {"software", data.system.software.name},
          {"constants", list_of(fit.constants, constant_json)},
          {"folds", list_of(fit.folds, fold_json)},
          {"rows", data.rows},
          {"runs", fit.runs},
          {"groups", fit.groups},
          {"problems", data.problems.rows.size()},
          {"untimed", data.untimed},
          {"of_other_systems", data.others},
          {"noise_percent", 100 * fit.noise},
          {"before", errors_json(fit.before)},
          {"fitted", errors_json(fit.after)},
          {"held_out", errors_json(fit.held_out)},
          {"files", files}};
}

namespace {

/// The members that the document of every fit has, for one factor.
Json factor_json(RunConfig const& run,
                 std::string const& key,
                 double value,
                 double prior,
                 std::optional<double> standard_error) {
  return {{"schema", fit_schema},
          {"system", run.system.name},
          {"software", run.system.software.name},
          {"constants", Json::array({{{"key", key},
                                      {"with", Json::array()},
                                      {"unit", nullptr},
                                      {"value", value},
                                      {"prior", prior},
                                      {"standard_error", standard_error},
                                      {"separable", true}}})},
          {"folds", Json::array()}};
}

}  // namespace

Json to_json(StackFactor const& factor, std::vector<std::string> const& files) {
  Json json = factor_json(factor.run, "software.factor", factor.value(), factor.prior,
                          repeated_runs * factor.value());
  json.update({{"measured_seconds", factor.measured},
               {"predicted_seconds_before", factor.predicted_before},
               {"predicted_seconds", factor.predicted},
               {"interval_seconds", factor.interval},
               {"within_interval", factor.interval ? Json(factor.is_expected()) : Json(nullptr)},
               {"files", files}});
  return json;
}

Json to_json(MemoryFactor const& factor, std::vector<std::string> const& files) {
  bool const has_died = factor.seen.kind == MemoryObservation::Kind::died;
  Json json = factor_json(factor.run, "software.memory.factor", factor.value(), factor.prior,
                          factor.standard_error);
  json.update(
      {{"observation", observation_names[static_cast<std::size_t>(factor.seen.kind)]},
       {"stage", factor.stage.value()},
       {"measured_bytes", has_died ? Json(nullptr) : Json(factor.seen.bytes.count())},
       {"tried_bytes", factor.seen.tried ? Json(factor.seen.tried->count()) : Json(nullptr)},
       {"needed_bytes", has_died ? Json(factor.needed) : Json(nullptr)},
       {"room_bytes", factor.room},
       {"predicted_bytes_before", factor.predicted_before},
       {"predicted_bytes", factor.predicted},
       {"interval_bytes", factor.interval},
       {"within_interval", factor.is_expected()},
       {"verdict_before", name_of(factor.verdict_before)},
       {"verdict", name_of(factor.verdict)},
       {"fits_probability_before", factor.lives_before},
       {"fits_probability", factor.lives},
       {"fits_probability_reason", factor.lives ? factor.evidence : factor.why_not_known},
       {"files", files}});
  return json;
}

std::string fit_text(Fit const& fit, FitData const& data) {
  std::string text = data.system.name + " with " + data.system.software.name + ": " +
                     counted(fit.runs, "run") + " in " + counted(fit.groups, "group") + ", of " +
                     std::to_string(data.rows) + " rows (" + std::to_string(data.untimed) +
                     " without a time, " + std::to_string(data.others) +
                     " of another system or stack, " + std::to_string(data.problems.rows.size()) +
                     " with a problem)\n\n" + constants_table(fit) + error_note(fit) + "\n";
  TextTable errors{
      {{"errors, in %", Align::left}, {"runs"}, {"mean"}, {"median"}, {"p90"}, {"bias"}}};
  add_errors("with the priors", fit.runs, fit.before, errors);
  add_errors("fitted", fit.runs, fit.after, errors);
  if (fit.held_out) {
    add_errors("held-out groups", fit.runs, *fit.held_out, errors);
    errors.add_rule();
    for (FitFold const& fold : fit.folds) {
      add_errors("fold " + std::to_string(fold.fold) + ", " + std::to_string(fold.groups.size()) +
                     (fold.groups.size() == 1 ? " group" : " groups"),
                 fold.runs, fold.errors, errors);
    }
  }
  text += errors.text();
  if (!fit.held_out) text += "\nAll groups are in one fold: nothing was held out.\n";
  if (fit.runs == 1) {
    text += "One run gives no bound: it does not show how far off predictions of other runs are.\n";
  }
  return text;
}

namespace {

/// "12.70 to 14.90 s"
std::string seconds_text(std::array<double, 2> const& interval) {
  return decimals(interval[0], 2) + " to " + decimals(interval[1], 2) + " s";
}

/// Whether the measured time was to be expected.
std::string expectation_text(StackFactor const& factor) {
  if (!factor.interval) {
    std::string text =
        "No 80 % interval is known for this run before it was measured: " + factor.interval_reason +
        ".\nNo measured runs tell whether the factor is to be expected.\n";
    if (factor.interval_after) {
      text += "With the factor, `simulate` gives " + seconds_text(*factor.interval_after) +
              ", by how far two plans of one machine err apart.\n";
    }
    return text;
  }
  return "The measured time lies " + std::string{factor.is_expected() ? "inside" : "outside"} +
         " of the run's own 80 % interval, " + seconds_text(*factor.interval) + ".\n";
}

/// Why the run file may not be the run that was measured; empty if nothing says so.
std::string doubt_text(StackFactor const& factor) {
  bool const is_far = !factor.interval && !factor.is_usual();
  if (factor.is_credible() && factor.is_expected() && !is_far) return {};
  std::string text;
  if (!factor.is_credible()) {
    text =
        "Of the measured runs of experiments/validation four took more than three times as long as "
        "predicted,\nand none less than half as long. ";
  } else if (is_far) {
    text = "Of dense runs in 16 bits, wherever they were measured, 80 % would lie within " +
           seconds_text(factor.widest) + ".\n";
  }
  if (!text.empty()) {
    text += "A time so far off usually is that of another run or of other software.\n";
  }
  return text +
         "Check that the run file is the run that was measured\n(batch, layout, system, software),"
         " and that the time is that of one iteration.\n";
}

}  // namespace

std::string factor_text(StackFactor const& factor) {
  return factor.run.system.software.name + " on " + factor.run.system.name + ": predicted " +
         decimals(factor.predicted_before, 3) + " s, measured " + decimals(factor.measured, 3) +
         " s\n" + "software.factor " + decimals(factor.prior, 4) + " -> " +
         decimals(factor.value(), 4) + "; the prediction is now " + decimals(factor.predicted, 3) +
         " s\n" + expectation_text(factor) + doubt_text(factor) +
         R"(
The factor multiplies every duration. It moves all plans alike, so that which of them is fastest does
not change, and it does not show what was slow: kernels, the network or the host. Plans with another
precision, microbatch or number of nodes may need another factor. One run gives no bound: it does
not show how far off predictions of other plans are. `stagecraft fit DATA.csv` fits constants to
several runs.
)";
}

namespace {

std::string lives_text(std::optional<double> const& lives) {
  return lives ? " (probability that all stages live " + decimals(*lives, 2) + ")" : "";
}

std::string bytes_text(std::int64_t bytes) { return readable_text(Bytes{bytes}); }

std::string seen_text(MemoryFactor const& factor) {
  bool const has_died = factor.seen.kind == MemoryObservation::Kind::died;
  std::string text =
      "stage " + std::to_string(factor.stage.value()) + " of " + factor.run.system.software.name +
      " on " + factor.run.system.name + ": predicted " + bytes_text(factor.predicted_before) +
      (factor.seen.kind == MemoryObservation::Kind::allocated ? " allocated" : " reserved");
  if (!has_died) return text + ", measured " + bytes_text(factor.seen.bytes.count()) + "\n";
  text += "; it ran out of the " + bytes_text(factor.room) + " that its allocator has\n";
  if (!factor.seen.tried) return text;
  std::string const tried = bytes_text(factor.seen.tried->count());
  if (!factor.makes_request) {
    return text + "No tensor of " + tried +
           " is predicted on it: the bound is that its peak does not fit.\n";
  }
  return text + "With its tensors of " + tried + " it is predicted to need " +
         bytes_text(factor.needed) + ", which did not fit.\n";
}

}  // namespace

std::string factor_text(MemoryFactor const& factor) {
  std::string text =
      seen_text(factor) + "software.memory.factor " + decimals(factor.prior, 4) + " -> " +
      decimals(factor.value(), 4) + "; the prediction is now " + bytes_text(factor.predicted) +
      "\n" + "the run " + std::string{text_of(factor.verdict_before)} +
      lives_text(factor.lives_before) + " -> " + std::string{text_of(factor.verdict)} +
      lives_text(factor.lives) + "\n" +
      (factor.why_not_known.empty()
           ? ""
           : "no probability that it fits: " + factor.why_not_known + "\n") +
      "\n" +
      "The factor multiplies all that the framework's allocator holds, of every "
      "stage and plan. It does not\nshow what holds the memory: `stagecraft explain` "
      "does, without it. A prediction lies with 80 %\nbetween " +
      bytes_text(std::llround(factor.interval[0])) + " and " +
      bytes_text(std::llround(factor.interval[1])) + ", by " + factor.evidence + ".\n";
  bool const has_died = factor.seen.kind == MemoryObservation::Kind::died;
  if (has_died && !factor.standard_error) {
    text += "The factor was fitted to a run before, and explains that this one died: it is kept.\n";
  } else if (has_died) {
    text +=
        "That a rank died is a bound alone: the factor is the mean of what it leaves of that "
        "distribution,\n+- " +
        decimals(*factor.standard_error, 3) + ".\n";
  } else if (factor.seen.bytes.count() > factor.room) {
    text += "The allocator is predicted to have only " + bytes_text(factor.room) +
            ": what else holds the device's memory is\noverestimated (`memory.reserve`).\n";
  }
  if (factor.is_expected()) {
    text += "What was seen lies inside of these 80 %.\n";
  } else {
    text +=
        "\nWhat was seen lies outside of these 80 %. Check that the run file is the run that was "
        "measured\n(batch, layout, recompute, system, software), and that nothing else was on "
        "the device.\n";
  }
  return text;
}

std::string provenance_text(Fit const& fit, std::vector<std::string> const& files) {
  std::string text = "on " + counted(fit.runs, "run") + " in " + counted(fit.groups, "group") +
                     " of " + joined(files) + " by stagecraft fit";
  if (!fit.held_out) return text + "; nothing was held out";
  return text + "; error of held-out groups " + decimals(100 * fit.held_out->mean, 1) +
         " % in the mean, " + decimals(100 * fit.held_out->median, 1) + " % in the median";
}

}  // namespace stagecraft
