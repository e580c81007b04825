#include "libsim/fit/fit_output.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
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

Json to_json(StackFactor const& factor, std::vector<std::string> const& files) {
  return {{"schema", fit_schema},
          {"system", factor.run.system.name},
          {"software", factor.run.system.software.name},
          {"constants", Json::array({{{"key", "software.factor"},
                                      {"with", Json::array()},
                                      {"unit", nullptr},
                                      {"value", factor.value()},
                                      {"prior", factor.prior},
                                      {"standard_error", repeated_runs * factor.value()},
                                      {"separable", true}}})},
          {"folds", Json::array()},
          {"measured_seconds", factor.measured},
          {"predicted_seconds_before", factor.predicted_before},
          {"predicted_seconds", factor.predicted},
          {"files", files}};
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

/// Why the run file may not be the run that was measured; empty if nothing says so.
std::string doubt_text(StackFactor const& factor) {
  std::string reason;
  if (!factor.is_credible()) {
    reason =
        "Of the measured runs of experiments/validation four took more than three times as "
        "long as predicted,\nand none less than half as long.";
  } else if (!factor.is_expected()) {
    reason = "The measured time lies outside of the run's own 80 % interval, " +
             decimals((*factor.interval)[0], 2) + " to " + decimals((*factor.interval)[1], 2) +
             " s.";
  }
  if (reason.empty()) return {};
  return "\n" + reason +
         " Check that the run file is the run that was measured\n(batch, layout, system, software),"
         " and that the time is that of one iteration.\n";
}

}  // namespace

std::string factor_text(StackFactor const& factor) {
  return factor.run.system.software.name + " on " + factor.run.system.name + ": predicted " +
         decimals(factor.predicted_before, 3) + " s, measured " + decimals(factor.measured, 3) +
         " s\n" + "software.factor " + decimals(factor.prior, 4) + " -> " +
         decimals(factor.value(), 4) + "; the prediction is now " + decimals(factor.predicted, 3) +
         " s\n"
         "\nThe factor multiplies every duration. It moves all plans alike, so that which of them "
         "is "
         "fastest does\nnot change, and it does not show what was slow: kernels, the network or "
         "the "
         "host. Plans with another\nprecision, microbatch or number of nodes may need another "
         "factor. One run gives no bound: it does\nnot show how far off predictions of other plans "
         "are. `stagecraft fit DATA.csv` fits constants to\nseveral runs.\n" +
         doubt_text(factor);
}

std::string provenance_text(Fit const& fit, std::vector<std::string> const& files) {
  std::string text = "on " + counted(fit.runs, "run") + " in " + counted(fit.groups, "group") +
                     " of " + joined(files) + " by stagecraft fit";
  if (!fit.held_out) return text + "; nothing was held out";
  return text + "; error of held-out groups " + decimals(100 * fit.held_out->mean, 1) +
         " % in the mean, " + decimals(100 * fit.held_out->median, 1) + " % in the median";
}

}  // namespace stagecraft
