#include "libsim/hardware/tunable_constants.hpp"

#include <limits>
#include <type_traits>
#include <utility>

#include "libsim/hardware/constant_fields.hpp"

namespace stagecraft {
namespace {

// Bounds of constants whose range a file's reader does not give: positive, and within what
// read_value() accepts.
constexpr NumberRange any_time{.lower = 1e-12, .upper = 1e5, .includes_upper = true};
constexpr NumberRange any_rate{.lower = 1, .upper = 1e24, .includes_upper = true};

/// The visitor that collects constants with one number.
class ConstantCollector {
 public:
  ConstantCollector(std::string prefix, std::vector<TunableConstant>& constants)
      : prefix_{std::move(prefix)}, constants_{constants} {}

  void text(std::string_view /*key*/, std::string const& /*field*/, Need /*need*/) {}
  void boolean(std::string_view /*key*/, bool /*field*/) {}

  template <typename Value, typename... Range>
  void constant(std::string_view key, Sourced<Value>& field, Range... range) {
    if constexpr (std::is_same_v<Value, double>) {
      if (!field.source.empty() || field.value == 1) add(key, &field, range...);
    } else if (field.source.empty()) {
      return;
    } else if constexpr (std::is_same_v<Value, Seconds>) {
      add(key, &field, any_time);
    } else if constexpr (std::is_same_v<Value, BytesPerSecond>) {
      add(key, &field, any_rate);
    } else if constexpr (std::is_same_v<Value, RateByNodes>) {
      if (!field.value.empty()) add(key, &field, any_rate);
    }
  }
  template <typename Value, typename... Range>
  void optional_constant(std::string_view key, Sourced<Value>& field, Range... range) {
    constant(key, field, range...);
  }

  template <typename Visit>
  void section(std::string_view key, Visit const& visit) {
    ConstantCollector below{prefix_ + std::string{key} + ".", constants_};
    visit(below);
  }
  template <typename Visit>
  void section(std::string_view key, Need /*need*/, Visit const& visit) {
    section(key, visit);
  }
  /// Measured kernels are tables, which a fit leaves alone.
  template <typename Fields, typename Visit>
  void optional_section(std::string_view /*key*/, Fields& /*fields*/, Visit const& /*visit*/) {}

 private:
  void add(std::string_view key, TunableConstant::Target target, NumberRange range) {
    constants_.emplace_back(prefix_ + std::string{key}, target, range);
  }

  std::string prefix_;
  std::vector<TunableConstant>& constants_;
};

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
  ConstantCollector of_system{"system.", constants};
  visit_system(of_system, system);
  ConstantCollector of_software{"software.", constants};
  visit_software(of_software, system.software);
  return constants;
}

std::string leader_of(TunableConstant const& constant) {
  constexpr std::string_view with = "with ";
  std::string const& fitted = constant.fitted();
  if (!fitted.starts_with(with)) return {};
  return constant.key().substr(0, constant.key().rfind('.') + 1) + fitted.substr(with.size());
}

}  // namespace stagecraft
