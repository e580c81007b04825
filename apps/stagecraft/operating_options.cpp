#include "apps/stagecraft/operating_options.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "libsim/units/parse_number.hpp"
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

double positive(std::string const& option,
                std::string const& text,
                std::string const& number,
                std::string const& accepted = "a number above 0") {
  auto const value = parse_number<double>(number);
  if (value && *value > 0) return *value;
  throw CommandLineError{"--" + option, "'" + text + "'", accepted};
}

double positive(CommandLine const& line, std::string const& option) {
  std::string const& text = line.value(option);
  return positive(option, text, without_suffix(text),
                  "a number above 0, with k, M, B or T for 10^3, 10^6, 10^9 or 10^12: 300B, 15T");
}

/// Watts: `850W`, `0.85 kW`.
double read_power(std::string const& given) {
  constexpr char const* accepted = "watts above 0 with their unit, such as 850W or 0.85kW";
  std::string text = given;
  double scale = 1;
  if (!text.ends_with('W')) throw CommandLineError{"--power", "'" + given + "'", accepted};
  text.pop_back();
  if (text.ends_with('k')) {
    text.pop_back();
    scale = 1000;
  }
  while (text.ends_with(' ')) text.pop_back();
  return scale * positive("power", given, text, accepted);
}

/// Reads `VALUE` into `common`, or `SYSTEM=VALUE,SYSTEM=VALUE` into `by_system`.
template <typename Read>
void read_rate(CommandLine const& line,
               std::string const& option,
               std::optional<double>& common,
               std::map<std::string, double>& by_system,
               Read const& read) {
  if (!line.has(option)) return;
  std::string const& text = line.value(option);
  if (text.find('=') == std::string::npos) {
    common = read(text);
    return;
  }
  for (std::string const& item : list_items(text)) {
    std::size_t const equals = item.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw CommandLineError{"--" + option, "'" + item + "' in '" + text + "'",
                             "one value, or SYSTEM=VALUE for each system"};
    }
    if (!by_system.emplace(item.substr(0, equals), read(item.substr(equals + 1))).second) {
      throw CommandLineError{"--" + option, "'" + item.substr(0, equals) + "' twice",
                             "each system once"};
    }
  }
}

/// Reads a price, or that in `SYSTEM=PRICE`. All have one currency.
double read_next_price(std::string const& text, std::string& currency, bool is_first) {
  std::string own;
  double const price = read_price(text, own);
  if (!is_first && own != currency) {
    throw CommandLineError{"--price", "'" + own + "' beside '" + currency + "'",
                           "prices in one currency"};
  }
  currency = own;
  return price;
}

void require_rate(std::string const& option,
                  std::map<std::string, double> const& rates,
                  std::vector<std::vector<std::string>> const& systems) {
  if (rates.empty()) return;
  std::vector<std::string> asked;
  std::set<std::string> known;
  for (std::vector<std::string> const& names : systems) {
    if (std::ranges::find(asked, names.front()) == asked.end()) asked.push_back(names.front());
    known.insert(names.begin(), names.end());
  }
  for (auto const& [name, rate] : rates) {
    if (!known.contains(name)) throw unknown_word("--" + option, name, asked);
  }
  for (std::vector<std::string> const& names : systems) {
    auto const has_rate = [&](std::string const& name) { return rates.contains(name); };
    if (std::ranges::any_of(names, has_rate)) continue;
    throw CommandLineError{"--" + option, "none for '" + names.front() + "'",
                           "one for each system, or one value for all"};
  }
}

}  // namespace

double read_price(std::string const& text, std::string& currency) {
  constexpr std::string_view unit = "/gpu-hour";
  std::string const price = text.ends_with(unit) ? text.substr(0, text.size() - unit.size()) : text;
  constexpr std::string_view digits = "0123456789.";
  std::size_t const first = std::min(price.find_first_of(digits), price.size());
  std::size_t const last = std::min(price.find_last_of(digits), price.size() - 1) + 1;
  currency = price.substr(0, first) + price.substr(last);
  std::erase(currency, ' ');
  bool const is_currency = std::ranges::none_of(
      currency, [](char c) { return std::string_view{"+-e,/"}.find(c) != std::string_view::npos; });
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
           .description = "price of a GPU per hour, e.g. 2.5 or 2.5 EUR/gpu-hour; of "
                          "several systems dgx-h100=2.5,b200-hgx=5"},
          {.name = "power",
           .value = Value::text("W"),
           .description = "mean power of a node per GPU while it trains, e.g. 850W or 0.85kW; of "
                          "several systems dgx-h100=0.85kW,b200-hgx=1.2kW"},
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

SystemRates read_system_rates(CommandLine const& line) {
  SystemRates all;
  OperatingRates& rates = all.common;
  read_rate(line, "price", rates.price, all.price, [&](std::string const& text) {
    return read_next_price(text, rates.currency, all.price.empty());
  });
  read_rate(line, "power", rates.watts, all.watts, read_power);
  rates.pue = positive("pue", line.value("pue"), line.value("pue"));
  if (rates.pue < 1) {
    throw CommandLineError{"--pue", "'" + line.value("pue") + "'", "a number from 1"};
  }
  if (line.has("tokens")) rates.tokens = positive(line, "tokens");
  if (line.has("gpu-hours-per-failure")) {
    rates.hours_per_failure = positive(line, "gpu-hours-per-failure");
  }
  rates.checkpoint = read_time(line, "checkpoint-time");
  rates.restart = read_time(line, "restart-time");
  for (char const* const option : {"checkpoint-time", "restart-time"}) {
    if (line.is_given(option) && !rates.hours_per_failure) {
      throw CommandLineError{std::string{"--"} + option, "without --gpu-hours-per-failure",
                             "together with --gpu-hours-per-failure"};
    }
  }
  if (line.is_given("pue") && !line.has("power")) {
    throw CommandLineError{"--pue", "without --power", "together with --power"};
  }
  return all;
}

void require_rates(SystemRates const& rates, std::vector<std::vector<std::string>> const& systems) {
  require_rate("price", rates.price, systems);
  require_rate("power", rates.watts, systems);
}

}  // namespace stagecraft
