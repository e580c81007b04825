#include "libsim/hardware/tunable_constants.hpp"

#include <limits>
#include <type_traits>
#include <utility>

#include "libsim/hardware/constant_visitor.hpp"
#include "libsim/hardware/software_keys.hpp"
#include "libsim/hardware/system_keys.hpp"

namespace stagecraft {
namespace {

// Bounds of constants whose range a file's reader does not give: positive, and within what
// read_value() accepts.
constexpr NumberRange any_time{.lower = 1e-12, .upper = 1e5, .includes_upper = true};
constexpr NumberRange any_rate{.lower = 1, .upper = 1e24, .includes_upper = true};

/// Collects constants with one number.
auto collector(std::vector<TunableConstant>& constants) {
  return [&]<typename Value>(std::string const& name, Key const& key, Sourced<Value>& field) {
    if constexpr (std::is_same_v<Value, double>) {
      if (!field.source.empty() || field.value == 1)
        constants.emplace_back(name, &field, key.range);
    } else if (field.source.empty()) {
      return;
    } else if constexpr (std::is_same_v<Value, Seconds>) {
      constants.emplace_back(name, &field, any_time);
    } else if constexpr (std::is_same_v<Value, BytesPerSecond>) {
      constants.emplace_back(name, &field, any_rate);
    } else if constexpr (std::is_same_v<Value, RateByNodes>) {
      if (!field.value.empty()) constants.emplace_back(name, &field, any_rate);
    }
  };
}

}  // namespace

TunableConstant::TunableConstant(std::string key, Target target, NumberRange range)
    : key_{std::move(key)},
      target_{target},
      least_{range.lower},
      // The largest number below a bound that is not accepted itself.
      most_{range.includes_upper ? range.upper : range.upper * (1 - 1e-9)} {}

double TunableConstant::value() const {
  return std::visit(
      [](auto const* constant) -> double {
        using Value = std::remove_cvref_t<decltype(constant->value)>;
        if constexpr (std::is_same_v<Value, double>) {
          return constant->value;
        } else if constexpr (std::is_same_v<Value, RateByNodes>) {
          return constant->value.begin()->second.value;
        } else {
          return constant->value.value;
        }
      },
      target_);
}

std::string_view TunableConstant::unit() const {
  if (std::holds_alternative<Sourced<double>*>(target_)) return {};
  return std::holds_alternative<Sourced<Seconds>*>(target_) ? "s" : "B/s";
}

std::string const& TunableConstant::source() const {
  return std::visit([](auto const* c) -> std::string const& { return c->source; }, target_);
}

std::string const& TunableConstant::fitted() const {
  return std::visit([](auto const* c) -> std::string const& { return c->fitted; }, target_);
}

double TunableConstant::spread() const {
  return std::visit([](auto const* c) { return c->spread; }, target_);
}

void TunableConstant::set_value(double value) const {
  std::visit(
      [&](auto* constant) {
        using Value = std::remove_cvref_t<decltype(constant->value)>;
        if constexpr (std::is_same_v<Value, double>) {
          constant->value = value;
        } else if constexpr (std::is_same_v<Value, RateByNodes>) {
          double const scale = value / constant->value.begin()->second.value;
          for (auto& [nodes, rate] : constant->value) rate.value *= scale;
        } else {
          constant->value.value = value;
        }
      },
      target_);
}

void TunableConstant::set_fitted(std::string text) const {
  std::visit(
      [&](auto* constant) {
        if (constant->source.empty()) constant->source = "fitted";
        constant->fitted = std::move(text);
      },
      target_);
}

std::vector<TunableConstant> tunable_constants(System& system) {
  std::vector<TunableConstant> constants;
  auto const collect = collector(constants);
  ConstantVisitor of_system{collect, "system."};
  visit_keys(of_system, system);
  ConstantVisitor of_software{collect, "software."};
  visit_keys(of_software, system.software);
  return constants;
}

std::string leader_of(TunableConstant const& constant) {
  constexpr std::string_view with = "with ";
  std::string const& fitted = constant.fitted();
  if (!fitted.starts_with(with)) return {};
  return constant.key().substr(0, constant.key().rfind('.') + 1) + fitted.substr(with.size());
}

}  // namespace stagecraft
