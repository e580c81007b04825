#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libexec/kernels/cpu/cpu_kernels.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libsim/program/block_program.hpp"

/// What tests of kernels are written with: tensors that are set and read as doubles whatever their
/// type, and references in double.
namespace stagecraft::test {

/// A tensor that owns its memory. New ones hold NaN (bytes of 0xFF), so that elements a kernel
/// forgets to write are seen.
class TestTensor {
 public:
  TestTensor(ElementType type, Shape const& shape);
  /// Values rounded to the type.
  TestTensor(ElementType type, Shape const& shape, std::vector<double> const& values);
  /// Uniform values of [-1, 1), rounded to the type; the same for the same seed.
  static TestTensor random(ElementType type, Shape const& shape, unsigned seed);
  static TestTensor zeros(ElementType type, Shape const& shape);

  Shape const& shape() const { return shape_; }
  ElementType type() const { return type_; }
  std::int64_t size() const { return shape_.elements(); }
  double operator[](std::int64_t i) const;
  void set(std::int64_t i, double value);
  std::vector<double> values() const;
  bool same_bits(TestTensor const& other) const { return bytes_ == other.bytes_; }

  Operand operand() const;
  /// A window: strides in elements.
  Operand view(Shape const& shape, Shape const& strides, std::int64_t offset) const;

 private:
  ElementType type_;
  Shape shape_;
  mutable std::vector<std::byte> bytes_;  ///< operands of constant tensors are only read
};

/// b 2, s 10, h 24, a 4, d 6, f 20, v 37 padded to multiples of 4t, dropout 0.25, masks stored.
ModelConfig small_model(Precision precision = Precision::fp64);

/// A model's share of one tensor rank, of which tests make attributes and the operands' sizes.
struct RankShare {
  BlockShape shape;
  int tensor_rank = 0;
  int expert_rank = 0;
  SequencePart sequence{};

  std::int64_t first_word() const { return tensor_rank * shape.vocabulary(); }
};

/// What kernels are told of a rank.
KernelNeeds needs_of(RankShare const& share);

RankShare whole(ModelConfig const& model, std::int64_t micro = 2);
RankShare share(
    ModelConfig const& model, int tensor, int tensor_rank, bool sequence, std::int64_t micro = 2);

KernelCall make_call(OpKind kind,
                     std::vector<Operand> const& reads,
                     std::vector<Operand> const& writes);
/// The call with the attributes that an op of the model has; those of products are left alone.
KernelCall with_attributes(RankShare const& share, KernelCall call);
/// Runs one call, with the attributes of the model, on kernels of its own.
void run(RankShare const& share, KernelCall const& call, CpuKernelOptions const& options = {});
void run(RankShare const& share,
         OpKind kind,
         std::vector<Operand> const& reads,
         std::vector<Operand> const& writes);

/// A draw whose every field is different.
RandomDraw some_draw(DropoutSite site);

/// Relative rounding error of a type, with room for the sums of small tests.
double tolerance(ElementType type);

/// |got - wanted| <= tolerance (1 + |wanted|) for every element; names the worst.
void require_close(TestTensor const& got, std::vector<double> const& wanted, double tolerance);
void require_close(TestTensor const& got, std::vector<double> const& wanted);

/// Compares `gradient` with central differences of `loss` over every element of `x` (f64).
void require_gradient(TestTensor x,
                      std::function<double(TestTensor const&)> const& loss,
                      std::vector<double> const& gradient);

/// sum of a[i] w[i]: makes a number of an output, with gradient w.
double dot(TestTensor const& a, TestTensor const& w);

inline constexpr ElementType float_types[] = {ElementType::f64, ElementType::f32, ElementType::bf16,
                                              ElementType::f16};

}  // namespace stagecraft::test
