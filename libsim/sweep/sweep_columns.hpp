#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A result that does not apply: -1 in a row, not a number in a table; texts are then empty.
inline constexpr std::int64_t no_integer = -1;
double no_real();  ///< not a number

/// A column with a whole number of the simulation, which a 64-bit real number holds exactly.
struct IntegerColumn {
  std::string_view name;
  std::string_view unit;
  std::int64_t (*value)(Simulation const& simulation, TrainingPlan const& plan);
};

/// A column with a real number of the simulation.
struct RealColumn {
  std::string_view name;
  std::string_view unit;
  double (*value)(Simulation const& simulation, TrainingPlan const& plan);
};

/// The columns of results: the members of `simulate --json` with the same names, those of members
/// joined with _. SCHEMA.md beside this file explains them.
std::span<IntegerColumn const> integer_columns();
std::span<RealColumn const> real_columns();

/// The other columns.
inline constexpr std::string_view index_column = "index";
inline constexpr std::string_view valid_column = "valid";
inline constexpr std::string_view message_column = "message";
inline constexpr std::string_view plan_column = "plan";

/// Whether a column of this name is a result, not a key.
bool is_result_column(std::string_view name);

/// Whether it is one of integer_columns().
bool is_integer_column(std::string_view name);

/// The result of a point.
struct SweepRow {
  std::int64_t point = 0;
  bool is_valid = true;
  std::string message;                  ///< why it is impossible
  std::string plan;                     ///< fingerprint
  std::vector<std::int64_t> integers;   ///< the values of integer_columns()
  std::vector<double> reals;            ///< the values of real_columns()
  std::vector<std::string> warnings{};  ///< those of `simulate`; not in a column
};

}  // namespace stagecraft
