#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// A constant with one number, of a system or of its software stack, that a fit may change.
///
/// If rates are given by number of nodes, the first rate stands for all; the others scale with it.
/// Refers to the System from which it was collected and must not outlive it.
class TunableConstant {
 public:
  using Target = std::
      variant<Sourced<double>*, Sourced<Seconds>*, Sourced<BytesPerSecond>*, Sourced<RateByNodes>*>;

  TunableConstant(std::string key, Target target, NumberRange range);

  /// Dotted, as in a run file: `system.calibration.gemm_efficiency`, `software.host.kernel`.
  std::string const& key() const { return key_; }
  /// In `unit()`.
  double value() const;
  /// `s`, `B/s`, or empty for a number.
  std::string_view unit() const;
  /// The least and the largest value that it may have, in the same unit.
  double least() const { return least_; }
  double most() const { return most_; }
  std::string const& source() const;
  std::string const& fitted() const;
  /// The spread as Sourced describes it.
  double spread() const;

  void set_value(double value) const;
  void set_fitted(std::string text) const;

 private:
  std::string key_;
  Target target_;
  double least_;
  double most_;
};

/// All such constants that are given, or are factors whose neutral value is 1, in the order of the
/// files, the system's first.
std::vector<TunableConstant> tunable_constants(System& system);

/// The key of the constant with which another one is scaled: a constant that is `fitted: with NAME`
/// follows NAME, which is a key beside it. Empty if it stands for itself.
std::string leader_of(TunableConstant const& constant);

}  // namespace stagecraft
