#pragma once

#include <cstddef>
#include <cstdint>

#include "libsim/host/worker_pool.hpp"
#include "libsim/model/tensor.hpp"

/// What the step ops do, on flat ranges of elements. Gradients, master copies and moments are f32,
/// or f64 in f64 models; results depend on no number of threads.
///
/// \throws std::logic_error  where types or sizes do not fit together.
namespace stagecraft {

/// Elements one after another.
struct FlatRange {
  void* data = nullptr;
  ElementType type = ElementType::f32;
  std::int64_t elements = 0;

  /// Elements [first, first + count).
  FlatRange part(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * element_size(type), type, count};
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements * element_size(type)); }
};

/// zero_gradients: fills with zeros, any type.
void fill_zero(WorkerPool& pool, FlatRange const& range);

/// scale_gradients and clip_gradients: multiplies by `factor`. f32 or f64.
void scale(WorkerPool& pool, FlatRange const& range, double factor);

/// unscale_gradients: multiplies by `factor`, one over the loss scale; whether any result is
/// infinite or not a number. f32 or f64.
bool unscale(WorkerPool& pool, FlatRange const& range, double factor);

/// gradient_norm: sum of squares in double, in an order that depends only on the number of
/// elements. f32 or f64.
double sum_of_squares(WorkerPool& pool, FlatRange const& range);

/// One Adam update with decoupled weight decay (Loshchilov and Hutter 2019, arXiv:1711.05101).
struct AdamUpdate {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  /// What parameters are multiplied by first: 1 - learning rate * weight decay, or 1 without.
  double decay_factor = 1;
  std::int64_t step = 1;  ///< from 1 on, for the correction of the moments' bias
};

/// adam: parameters = decay_factor * parameters
///                    - learning_rate * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) +
///                    eps).
/// All four are f32, or all f64. 16-bit models give their master copy, others the parameters.
void adam(WorkerPool& pool,
          AdamUpdate const& update,
          FlatRange const& parameters,
          FlatRange const& first_moment,
          FlatRange const& second_moment,
          FlatRange const& gradient);

/// narrow_parameters: rounds the f32 master copy to 16-bit parameters.
void narrow_parameters(WorkerPool& pool, FlatRange const& master, FlatRange const& parameters);

}  // namespace stagecraft
