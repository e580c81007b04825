#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/model/low_precision.hpp"
#include "libsim/model/model_config.hpp"
#include "libsim/program/category.hpp"
#include "libsim/units/enum_names.hpp"
#include "libsim/units/inline_list.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// f8_e4m3 and f8_e5m2 have 8 bits, of which 4 or 5 are the exponent (Micikevicius et al. 2022,
/// arXiv:2209.05433); f4_e2m1 has 4, of which 2 are the exponent, and two elements share a byte
/// (OCP Microscaling Formats 1.0).
enum class ElementType : std::uint8_t {
  f16,
  bf16,
  f32,
  f64,
  u8,
  i32,
  i64,
  f8_e4m3,
  f8_e5m2,
  f4_e2m1,
};

/// Bits of one element. \throws std::out_of_range  if `type` is not one of the enumeration.
constexpr std::int64_t element_bits(ElementType type) {
  switch (type) {
    case ElementType::f4_e2m1:
      return 4;
    case ElementType::u8:
    case ElementType::f8_e4m3:
    case ElementType::f8_e5m2:
      return 8;
    case ElementType::f16:
    case ElementType::bf16:
      return 16;
    case ElementType::f32:
    case ElementType::i32:
      return 32;
    case ElementType::f64:
    case ElementType::i64:
      return 64;
  }
  throw std::out_of_range{"an element type has no size"};
}

/// Bytes of one element. \throws std::out_of_range  if elements share bytes.
constexpr std::int64_t element_size(ElementType type) {
  std::int64_t const bits = element_bits(type);
  if (bits < 8) throw std::out_of_range{"elements of this type share bytes"};
  return bits / 8;
}

/// Bytes of this many elements.
constexpr Bytes bytes_of(std::int64_t elements, ElementType type) {
  return Bytes{(elements * element_bits(type) + 7) / 8};
}

template <>
struct EnumNames<ElementType> {
  static constexpr std::array<std::pair<ElementType, std::string_view>, 10> all{
      {{ElementType::f16, "f16"},
       {ElementType::bf16, "bf16"},
       {ElementType::f32, "f32"},
       {ElementType::f64, "f64"},
       {ElementType::u8, "u8"},
       {ElementType::i32, "i32"},
       {ElementType::i64, "i64"},
       {ElementType::f8_e4m3, "f8_e4m3"},
       {ElementType::f8_e5m2, "f8_e5m2"},
       {ElementType::f4_e2m1, "f4_e2m1"}}};
};

/// Whether products read it together with scales.
constexpr bool is_quantised(ElementType type) {
  return type == ElementType::f8_e4m3 || type == ElementType::f8_e5m2 ||
         type == ElementType::f4_e2m1;
}

/// The extents of a tensor on one rank, outermost first; at most four.
/// \throws std::length_error  if there are more.
class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents) {
    for (std::int64_t const extent : extents) extents_.push_back(extent);
  }
  constexpr int rank() const { return static_cast<int>(extents_.size()); }
  constexpr std::int64_t operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  constexpr std::int64_t elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank(); ++i) product *= (*this)[i];
    return product;
  }
  friend constexpr bool operator==(Shape const& a, Shape const& b) {
    return std::equal(a.extents_.begin(), a.extents_.end(), b.extents_.begin(), b.extents_.end());
  }

 private:
  InlineList<std::int64_t, 4> extents_;
};

/// Index of a tensor in its program.
using TensorId = std::int32_t;
inline constexpr TensorId no_tensor = -1;

/// How long a buffer lives.
enum class Lifetime : std::uint8_t {
  microbatch,       ///< allocated and released in the passes of one microbatch, as liveness derives
  job,              ///< from before the first iteration on
  from_first_step,  ///< from the first optimizer step on
  iteration,        ///< made by the passes of an iteration, and gone when the next one begins
};

/// Where a buffer that outlives the passes of a microbatch is kept.
struct Residence {
  enum class Place : std::uint8_t { device, host };
  Place place = Place::device;
  /// Whether the ranks that hold the same parameters share the buffer: each then has its shard of
  /// every ShardedRun.
  bool is_shared = false;
};

/// A name in two parts, "owner.part", of static storage: building a program allocates no text.
struct Name {
  std::string_view owner;
  std::string_view part;

  friend constexpr bool operator==(Name const&, Name const&) = default;
};

/// "owner.part", or "owner" if there is no part.
std::string to_string(Name const& name);

/// How the scales of a quantised tensor lie, which follow its elements. The tensor is a matrix of
/// `segments` equally many rows that are scaled apart.
struct ScaleLayout {
  Recipe recipe = Recipe::none;  ///< whose blocks of elements share a scale; none: no scales
  bool of_weight = false;        ///< the blocks are those of weights
  bool by_columns = false;       ///< blocks lie along columns, as products sum
  std::int32_t segments = 1;
  std::int64_t bytes = 0;  ///< of all scales
};

/// A tensor of an op program: what it is, not where it is. Liveness derives when its buffer exists.
struct Tensor {
  Name name;  ///< e.g. core_attention.softmax_output; with `layer` and `rebuilt` unique in its
              ///< program
  std::int32_t layer = 0;  ///< layer of the block that it belongs to, from 0
  bool rebuilt = false;    ///< whether it is a recomputed copy
  ElementType type = ElementType::f16;
  Category category = Category::activations;
  Lifetime lifetime = Lifetime::microbatch;
  Shape shape;
  /// The tensor whose buffer this one reads and writes: itself, unless it is a view.
  TensorId buffer = no_tensor;
  Shape strides;            ///< views only: in elements, one per extent
  std::int64_t offset = 0;  ///< views only: elements of the buffer before the first one
  ScaleLayout scales{};     ///< of a quantised tensor; who has its elements has them too

  constexpr Bytes bytes() const { return bytes_of(shape.elements(), type) + Bytes{scales.bytes}; }
};

/// Element type of activations and parameters.
ElementType activation_type(Precision precision);
/// The precision whose activations are of this type.
/// \throws std::invalid_argument  if it is an integer type, or a quantised one.
Precision precision_of(ElementType type);
/// Element type of accumulated values: sums of gradients in kernels, statistics, losses and master
/// weights. fp32 for 16-bit training.
ElementType accumulation_type(Precision precision);

}  // namespace stagecraft
