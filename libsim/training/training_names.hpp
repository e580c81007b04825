#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "libsim/training/training_config.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

// The names in the sections of a run, as configurations and output have them.

template <>
struct EnumNames<P2p> {
  static constexpr std::array<std::pair<P2p, std::string_view>, 2> all{
      {{P2p::blocking, "blocking"}, {P2p::overlapped, "overlapped"}}};
};

template <>
struct EnumNames<StepSync> {
  static constexpr std::array<std::pair<StepSync, std::string_view>, 2> all{
      {{StepSync::barrier, "barrier"}, {StepSync::post_validated, "post_validated"}}};
};

template <>
struct EnumNames<StateType> {
  static constexpr std::array<std::pair<StateType, std::string_view>, 3> all{
      {{StateType::fp32, "fp32"}, {StateType::bf16, "bf16"}, {StateType::fp16, "fp16"}}};
};

template <>
struct EnumNames<ContextMethod> {
  static constexpr std::array<std::pair<ContextMethod, std::string_view>, 4> all{
      {{ContextMethod::ring, "ring"},
       {ContextMethod::all_gather, "all_gather"},
       {ContextMethod::ulysses, "ulysses"},
       {ContextMethod::contiguous_ring, "contiguous_ring"}}};
};

template <>
struct EnumNames<Dispatch> {
  static constexpr std::array<std::pair<Dispatch, std::string_view>, 3> all{
      {{Dispatch::alltoall, "alltoall"},
       {Dispatch::allgather, "allgather"},
       {Dispatch::deepep, "deepep"}}};
};

template <>
struct EnumNames<DropBy> {
  static constexpr std::array<std::pair<DropBy, std::string_view>, 2> all{
      {{DropBy::probabilities, "probabilities"}, {DropBy::position, "position"}}};
};

template <>
struct EnumNames<EmptyCache> {
  static constexpr std::array<std::pair<EmptyCache, std::string_view>, 3> all{
      {{EmptyCache::never, "never"},
       {EmptyCache::before_step, "before_step"},
       {EmptyCache::around_step, "around_step"}}};
};

template <>
struct EnumNames<AllocatorKind> {
  static constexpr std::array<std::pair<AllocatorKind, std::string_view>, 3> all{
      {{AllocatorKind::pytorch, "pytorch"},
       {AllocatorKind::cuda_async, "cuda_async"},
       {AllocatorKind::arena, "arena"}}};
};

}  // namespace stagecraft
