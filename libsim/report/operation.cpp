#include "libsim/report/operation.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "libsim/config/optional_json.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

constexpr double seconds_per_hour = 3600;
constexpr double seconds_per_day = 86400;
constexpr double joules_per_kilowatt_hour = 3.6e6;
constexpr double trillion = 1e12;

/// Daly's interval between two checkpoints that each take `delta`, seconds.
double best_interval(double delta, double between_failures) {
  if (delta >= 2 * between_failures) return between_failures;
  double const ratio = delta / (2 * between_failures);
  return std::sqrt(2 * delta * between_failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - delta;
}

/// Energy as people read it: kWh, or MWh from 10,000 kWh on.
std::string energy_text(double joules) {
  double const hours = joules / joules_per_kilowatt_hour;
  return hours >= 1e4 ? decimals(hours / 1000, 1) + " MWh" : decimals(hours, 3) + " kWh";
}

std::string money_text(double amount, OperatingRates const& rates) {
  return amount_text(amount) + (rates.currency.empty() ? "" : " " + rates.currency);
}

}  // namespace

OperatingRates SystemRates::of(std::vector<std::string> const& names) const {
  OperatingRates rates = common;
  auto const choose = [&](std::map<std::string, double> const& by_system,
                          std::optional<double>& rate) {
    if (by_system.empty()) return;
    rate.reset();
    for (std::string const& name : names) {
      if (auto const found = by_system.find(name); found != by_system.end()) rate = found->second;
    }
  };
  choose(price, rates.price);
  choose(watts, rates.watts);
  return rates;
}

std::vector<std::string> names_of_system(std::string const& given, std::string const& name) {
  std::vector<std::string> names{given};
  for (std::string const& other : {std::filesystem::path{given}.stem().string(), name}) {
    if (std::ranges::find(names, other) == names.end()) names.push_back(other);
  }
  return names;
}

double gpu_hours_per_trillion_tokens(double tokens_per_second, int gpus) {
  return gpus * trillion / tokens_per_second / seconds_per_hour;
}

std::string thousand_hours_text(double gpu_hours) {
  return gpu_hours < 1e6 ? decimals(gpu_hours / 1000, 1) : amount_text(gpu_hours / 1000);
}

std::string amount_text(double amount) {
  if (amount < 1000) return decimals(amount, 2);
  std::string text = decimals(amount, 0);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

Goodput goodput_of(int gpus, double hours_per_failure, Seconds checkpoint, Seconds restart) {
  Goodput goodput;
  double const between = hours_per_failure * seconds_per_hour / gpus;
  goodput.between_failures = Seconds{between};
  double const delta = checkpoint.value;
  // If checkpoints cost nothing, they are made all the time: this is the limit for tau -> 0.
  if (delta == 0) {
    goodput.share = std::exp(-restart.value / between);
    return goodput;
  }
  double const tau = best_interval(delta, between);
  goodput.interval = Seconds{tau};
  goodput.share =
      tau / (between * std::exp(restart.value / between) * std::expm1((tau + delta) / between));
  return goodput;
}

OperatingFigures operating_figures(double iteration_seconds,
                                   double tokens_per_second,
                                   int gpus,
                                   OperatingRates const& rates) {
  OperatingFigures figures;
  double const tokens_per_iteration = tokens_per_second * iteration_seconds;
  if (rates.price) {
    figures.cost_per_iteration = *rates.price * gpus * iteration_seconds / seconds_per_hour;
  }
  if (rates.watts) {
    figures.joules_per_iteration = *rates.watts * rates.pue * gpus * iteration_seconds;
    figures.joules_per_token = *figures.joules_per_iteration / tokens_per_iteration;
  }
  if (rates.hours_per_failure) {
    figures.goodput = goodput_of(gpus, *rates.hours_per_failure, rates.checkpoint, rates.restart);
  }
  double const share = figures.goodput ? figures.goodput->share : 1;
  figures.gpu_hours_per_trillion_tokens = gpu_hours_per_trillion_tokens(tokens_per_second, gpus);
  if (rates.price) {
    figures.cost_per_day = *rates.price * gpus * seconds_per_day / seconds_per_hour;
    figures.cost_per_trillion_tokens = *rates.price * figures.gpu_hours_per_trillion_tokens / share;
  }
  if (!rates.tokens) return figures;
  double const seconds = *rates.tokens / tokens_per_second / share;
  figures.days = seconds / seconds_per_day;
  if (rates.price) figures.cost = *rates.price * gpus * seconds / seconds_per_hour;
  if (rates.watts) figures.joules = *rates.watts * rates.pue * gpus * seconds;
  return figures;
}

std::string goodput_text(Goodput const& goodput) {
  return "goodput " + decimals(100 * goodput.share, 1) + " %: an interruption every " +
         decimals(goodput.between_failures.value / seconds_per_hour, 1) +
         " h, a checkpoint every " + decimals(goodput.interval.value / 60, 1) + " min";
}

std::string operating_text(OperatingFigures const& figures, OperatingRates const& rates) {
  std::string text;
  std::string line;
  auto const add = [&](std::string const& part) { line += (line.empty() ? "" : ", ") + part; };
  auto const end = [&](std::string const& begin) {
    if (!line.empty()) text += begin + line + "\n";
    line.clear();
  };
  if (figures.cost_per_iteration) add(money_text(*figures.cost_per_iteration, rates));
  if (figures.joules_per_iteration) {
    add(energy_text(*figures.joules_per_iteration) + " (" + decimals(*figures.joules_per_token, 3) +
        " J per token)");
  }
  end("an iteration costs ");
  if (figures.cost_per_day) {
    add("a day costs " + money_text(*figures.cost_per_day, rates));
    add("a trillion tokens " + money_text(*figures.cost_per_trillion_tokens, rates) +
        (figures.goodput ? " at the goodput below, for " +
                               thousand_hours_text(figures.gpu_hours_per_trillion_tokens /
                                                   figures.goodput->share) +
                               " thousand GPU hours"
                         : ""));
    end("");
  }
  if (figures.goodput) add(goodput_text(*figures.goodput));
  end("");
  if (figures.days) {
    add(decimals(*figures.days, 2) + " days");
    if (figures.cost) add(money_text(*figures.cost, rates));
    if (figures.joules) add(energy_text(*figures.joules));
    end("training on " + decimals(*rates.tokens / 1e9, 1) + " billion tokens takes ");
  }
  return text;
}

nlohmann::ordered_json to_json(OperatingFigures const& figures, OperatingRates const& rates) {
  nlohmann::ordered_json goodput = nullptr;
  if (figures.goodput) {
    goodput = {{"share", figures.goodput->share},
               {"seconds_between_failures", figures.goodput->between_failures.value},
               {"checkpoint_interval_seconds", figures.goodput->interval.value}};
  }
  return {{"price_per_gpu_hour", rates.price},
          {"currency", rates.currency},
          {"watts_per_gpu", rates.watts},
          {"pue", rates.pue},
          {"gpu_hours_per_trillion_tokens", figures.gpu_hours_per_trillion_tokens},
          {"cost_per_iteration", figures.cost_per_iteration},
          {"cost_per_day", figures.cost_per_day},
          {"cost_per_trillion_tokens", figures.cost_per_trillion_tokens},
          {"joules_per_iteration", figures.joules_per_iteration},
          {"joules_per_token", figures.joules_per_token},
          {"goodput", goodput},
          {"days", figures.days},
          {"cost", figures.cost},
          {"joules", figures.joules}};
}

}  // namespace stagecraft
