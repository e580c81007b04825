#include "apps/stagecraft/operating_options.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

Seconds read_time(CommandLine const& line, std::string const& option) {
  std::string const& text = line.value(option);
  if (text == "0") return Seconds{0};
  auto const time = parse_quantity<Seconds>(text);
  if (time) return *time;
  throw CommandLineError{"--" + option, "'" + text + "'",
                         std::string{accepted_quantity<Seconds>()}};
}

double positive(CommandLine const& line, std::string const& option, std::string const& text) {
  double const value = number_from_zero("--" + option, text);
  if (value > 0) return value;
  throw CommandLineError{"--" + option, "'" + line.value(option) + "'", "a number above 0"};
}

/// Watts: `850`, `850W`, `0.85 kW`.
double read_power(CommandLine const& line) {
  std::string text = line.value("power");
  double scale = 1;
  if (text.ends_with('W')) {
    text.pop_back();
    if (text.ends_with('k')) {
      text.pop_back();
      scale = 1000;
    }
  }
  while (text.ends_with(' ')) text.pop_back();
  return scale * positive(line, "power", text);
}

}  // namespace

double read_price(std::string const& text, std::string& currency) {
  constexpr std::string_view unit = "/gpu-hour";
  if (!text.ends_with(unit)) {
    throw CommandLineError{"--price", "'" + text + "'",
                           "a number and its unit, as in 2.5/gpu-hour or 2.5 EUR/gpu-hour"};
  }
  std::string const price = text.substr(0, text.size() - unit.size());
  constexpr std::string_view digits = "0123456789.";
  std::size_t const first = std::min(price.find_first_of(digits), price.size());
  std::size_t const last = std::min(price.find_last_of(digits), price.size() - 1) + 1;
  currency = price.substr(0, first) + price.substr(last);
  std::erase(currency, ' ');
  bool const is_currency = std::ranges::none_of(
      currency, [](char c) { return std::string_view{"+-e,"}.find(c) != std::string_view::npos; });
  if (!is_currency || first == price.size()) return number_from_zero("--price", price);
  return number_from_zero("--price", price.substr(first, last - first));
}

std::string without_suffix(std::string text) {
  constexpr std::array<std::pair<char, char const*>, 4> suffixes{
      {{'k', "e3"}, {'M', "e6"}, {'B', "e9"}, {'T', "e12"}}};
  for (auto const& [letter, power] : suffixes) {
    if (text.size() < 2 || text.back() != letter) continue;
    text.pop_back();
    return text + power;
  }
  return text;
}

std::vector<Option> operating_options() {
  return {{.name = "price",
           .value = Value::text("P/gpu-hour"),
           .description = "price of a GPU per hour, e.g. 2.5/gpu-hour or 2.5 EUR/gpu-hour"},
          {.name = "power",
           .value = Value::text("W"),
           .description = "mean power of a node per GPU while it trains, e.g. 850W or 0.85kW"},
          {.name = "pue",
           .value = Value::text("X"),
           .fallback = "1",
           .description = "power of the building per power of its computers"},
          {.name = "tokens",
           .value = Value::text("T"),
           .description = "tokens to train on, e.g. 300e9 or 15T"},
          {.name = "gpu-hours-per-failure",
           .value = Value::text("H"),
           .description = "GPU hours between interruptions, e.g. 40k; adds the goodput"},
          {.name = "checkpoint-time",
           .value = Value::text("TIME"),
           .fallback = "60 s",
           .description = "for which saving a checkpoint stops training"},
          {.name = "restart-time",
           .value = Value::text("TIME"),
           .fallback = "1200 s",
           .description = "from an interruption until training goes on"}};
}

OperatingRates read_operating_rates(CommandLine const& line) {
  OperatingRates rates;
  if (line.has("price")) rates.price = read_price(line.value("price"), rates.currency);
  if (line.has("power")) {
    rates.watts = read_power(line);
  }
  rates.pue = positive(line, "pue", line.value("pue"));
  if (rates.pue < 1) {
    throw CommandLineError{"--pue", "'" + line.value("pue") + "'", "a number from 1"};
  }
  if (line.has("tokens")) {
    rates.tokens = positive(line, "tokens", without_suffix(line.value("tokens")));
  }
  if (line.has("gpu-hours-per-failure")) {
    rates.hours_per_failure = positive(line, "gpu-hours-per-failure",
                                       without_suffix(line.value("gpu-hours-per-failure")));
  }
  rates.checkpoint = read_time(line, "checkpoint-time");
  rates.restart = read_time(line, "restart-time");
  for (char const* const option : {"checkpoint-time", "restart-time"}) {
    if (line.is_given(option) && !rates.hours_per_failure) {
      throw CommandLineError{std::string{"--"} + option, "without --gpu-hours-per-failure",
                             "together with --gpu-hours-per-failure"};
    }
  }
  if (line.is_given("pue") && !rates.watts) {
    throw CommandLineError{"--pue", "without --power", "together with --power"};
  }
  return rates;
}

}  // namespace stagecraft
