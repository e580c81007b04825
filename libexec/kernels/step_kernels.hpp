#pragma once

#include <cstdint>
#include <span>

#include "libexec/kernels/kernel_context.hpp"
#include "libexec/kernels/optimizer_kernels.hpp"

/// What optimizer_kernels.hpp and rank_order_reduction.hpp promise, compiled once for every
/// instruction set.
namespace stagecraft::STAGECRAFT_ISA {

// step_kernels.cpp
void scale(WorkerPool& pool, FlatRange const& range, double factor);
bool unscale(WorkerPool& pool, FlatRange const& range, double factor);
double sum_of_squares(WorkerPool& pool, FlatRange const& range);
void adam(WorkerPool& pool,
          AdamUpdate const& update,
          FlatRange const& parameters,
          FlatRange const& first_moment,
          FlatRange const& second_moment,
          FlatRange const& gradient);
void narrow_parameters(WorkerPool& pool, FlatRange const& master, FlatRange const& parameters);
// reduce.cpp
void reduce(WorkerPool& pool,
            Reduction reduction,
            ElementType type,
            std::span<void const* const> sources,
            void* destination,
            std::int64_t elements);

}  // namespace stagecraft::STAGECRAFT_ISA
