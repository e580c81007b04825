#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// How the operands of products are made in 8 or 4 bits; none: they stay in model.precision.
enum class Recipe : std::uint8_t {
  none,
  delayed,    ///< a scale per tensor, from the largest elements of steps before
  current,    ///< a scale per tensor, from its own largest element
  rowwise,    ///< torchao's: a scale per row
  blockwise,  ///< a scale per 1 x 128 elements of activations, 128 x 128 of weights
  mxfp8,      ///< a scale per 1 x 32 elements
  nvfp4,      ///< 4 bits, a scale per 1 x 16 elements
};

template <>
struct EnumNames<Recipe> {
  static constexpr std::array<std::pair<Recipe, std::string_view>, 7> all{
      {{Recipe::none, "none"},
       {Recipe::delayed, "delayed"},
       {Recipe::current, "current"},
       {Recipe::rowwise, "rowwise"},
       {Recipe::blockwise, "blockwise"},
       {Recipe::mxfp8, "mxfp8"},
       {Recipe::nvfp4, "nvfp4"}}};
};

/// The formats of 8 bits: e4m3 of all operands, or e5m2 of gradients (hybrid); automatic: the
/// recipe's.
enum class LowFormat : std::uint8_t { automatic, e4m3, hybrid };

template <>
struct EnumNames<LowFormat> {
  static constexpr std::array<std::pair<LowFormat, std::string_view>, 3> all{
      {{LowFormat::automatic, "auto"}, {LowFormat::e4m3, "e4m3"}, {LowFormat::hybrid, "hybrid"}}};
};

/// In how many bits parameters are kept or tokens travel: as without a recipe, or in its.
enum class LowOrHigh : std::uint8_t { high, low };

template <>
struct EnumNames<LowOrHigh> {
  static constexpr std::array<std::pair<LowOrHigh, std::string_view>, 2> all{
      {{LowOrHigh::high, "high"}, {LowOrHigh::low, "low"}}};
};

enum class KeptTransposes : std::uint8_t { automatic, keep, make_again };

template <>
struct EnumNames<KeptTransposes> {
  static constexpr std::array<std::pair<KeptTransposes, std::string_view>, 3> all{
      {{KeptTransposes::automatic, "auto"},
       {KeptTransposes::keep, "keep"},
       {KeptTransposes::make_again, "make_again"}}};
};

enum class LowGather : std::uint8_t { automatic, high, low };

template <>
struct EnumNames<LowGather> {
  static constexpr std::array<std::pair<LowGather, std::string_view>, 3> all{
      {{LowGather::automatic, "auto"}, {LowGather::high, "high"}, {LowGather::low, "low"}}};
};

/// The library that quantises.
enum class LowLibrary : std::uint8_t { transformer_engine, torchao, deepseek };

template <>
struct EnumNames<LowLibrary> {
  static constexpr std::array<std::pair<LowLibrary, std::string_view>, 3> all{
      {{LowLibrary::transformer_engine, "transformer_engine"},
       {LowLibrary::torchao, "torchao"},
       {LowLibrary::deepseek, "deepseek"}}};
};

/// What stays in model.precision.
struct KeepHigh {
  std::int64_t first = 0;  ///< layers from the first on
  std::int64_t last = 0;   ///< layers up to the last
  bool wgrad = false;      ///< products for the gradients of weights

  friend constexpr bool operator==(KeepHigh const&, KeepHigh const&) = default;
};

/// Key `low_precision`.
struct LowPrecision {
  Recipe recipe = Recipe::none;
  LowFormat format = LowFormat::automatic;
  LowOrHigh parameters = LowOrHigh::high;
  KeptTransposes transposes = KeptTransposes::automatic;
  bool attention = false;
  bool head = false;
  bool activation_input = false;
  KeepHigh keep_high{};
  LowGather gather = LowGather::automatic;
  LowOrHigh dispatch = LowOrHigh::high;
  LowLibrary implementation = LowLibrary::transformer_engine;

  friend constexpr bool operator==(LowPrecision const&, LowPrecision const&) = default;
};

}  // namespace stagecraft
