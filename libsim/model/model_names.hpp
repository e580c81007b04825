#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "libsim/model/model_config.hpp"
#include "libsim/model/recompute_policy.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

// The names in section `model` and of recompute policies, as configurations and output have them.

template <>
struct EnumNames<Activation> {
  static constexpr std::array<std::pair<Activation, std::string_view>, 5> all{
      {{Activation::gelu, "gelu"},
       {Activation::swiglu, "swiglu"},
       {Activation::relu, "relu"},
       {Activation::geglu, "geglu"},
       {Activation::swiglu_clamped, "swiglu_clamped"}}};
};

template <>
struct EnumNames<NormPlaces> {
  static constexpr std::array<std::pair<NormPlaces, std::string_view>, 3> all{
      {{NormPlaces::pre, "pre"}, {NormPlaces::post, "post"}, {NormPlaces::both, "both"}}};
};

template <>
struct EnumNames<QkNorm> {
  static constexpr std::array<std::pair<QkNorm, std::string_view>, 3> all{
      {{QkNorm::none, "none"}, {QkNorm::head, "head"}, {QkNorm::full, "full"}}};
};

template <>
struct EnumNames<Residual> {
  static constexpr std::array<std::pair<Residual, std::string_view>, 3> all{
      {{Residual::sequential, "sequential"},
       {Residual::parallel, "parallel"},
       {Residual::parallel_one_norm, "parallel_one_norm"}}};
};

template <>
struct EnumNames<Norm> {
  static constexpr std::array<std::pair<Norm, std::string_view>, 2> all{
      {{Norm::layernorm, "layernorm"}, {Norm::rmsnorm, "rmsnorm"}}};
};

template <>
struct EnumNames<Positions> {
  static constexpr std::array<std::pair<Positions, std::string_view>, 2> all{
      {{Positions::learned, "learned"}, {Positions::rotary, "rotary"}}};
};

template <>
struct EnumNames<Attention> {
  static constexpr std::array<std::pair<Attention, std::string_view>, 2> all{
      {{Attention::unfused, "unfused"}, {Attention::flash, "flash"}}};
};

template <>
struct EnumNames<DropoutMask> {
  static constexpr std::array<std::pair<DropoutMask, std::string_view>, 2> all{
      {{DropoutMask::stored, "stored"}, {DropoutMask::regenerated, "regenerated"}}};
};

template <>
struct EnumNames<SoftmaxDropout> {
  static constexpr std::array<std::pair<SoftmaxDropout, std::string_view>, 2> all{
      {{SoftmaxDropout::separate, "separate"}, {SoftmaxDropout::fused, "fused"}}};
};

template <>
struct EnumNames<RouterScore> {
  static constexpr std::array<std::pair<RouterScore, std::string_view>, 2> all{
      {{RouterScore::softmax, "softmax"}, {RouterScore::sigmoid, "sigmoid"}}};
};

template <>
struct EnumNames<RouterOrder> {
  static constexpr std::array<std::pair<RouterOrder, std::string_view>, 2> all{
      {{RouterOrder::after, "after"}, {RouterOrder::before, "before"}}};
};

template <>
struct EnumNames<RouterLoss> {
  static constexpr std::array<std::pair<RouterLoss, std::string_view>, 4> all{
      {{RouterLoss::none, "none"},
       {RouterLoss::auxiliary, "auxiliary"},
       {RouterLoss::sequence_auxiliary, "sequence_auxiliary"},
       {RouterLoss::global_auxiliary, "global_auxiliary"}}};
};

template <>
struct EnumNames<ProbabilitiesOn> {
  static constexpr std::array<std::pair<ProbabilitiesOn, std::string_view>, 2> all{
      {{ProbabilitiesOn::output, "output"}, {ProbabilitiesOn::input, "input"}}};
};

template <>
struct EnumNames<RouterPrecision> {
  static constexpr std::array<std::pair<RouterPrecision, std::string_view>, 2> all{
      {{RouterPrecision::fp32, "fp32"}, {RouterPrecision::model, "model"}}};
};

template <>
struct EnumNames<CausalMask> {
  static constexpr std::array<std::pair<CausalMask, std::string_view>, 2> all{
      {{CausalMask::per_microbatch, "per_microbatch"}, {CausalMask::none, "none"}}};
};

template <>
struct EnumNames<Precision> {
  static constexpr std::array<std::pair<Precision, std::string_view>, 4> all{
      {{Precision::fp16, "fp16"},
       {Precision::bf16, "bf16"},
       {Precision::fp32, "fp32"},
       {Precision::fp64, "fp64"}}};
};

template <>
struct EnumNames<RecomputeGranularity> {
  static constexpr std::array<std::pair<RecomputeGranularity, std::string_view>, 3> all{
      {{RecomputeGranularity::none, "none"},
       {RecomputeGranularity::selective, "selective"},
       {RecomputeGranularity::full, "full"}}};
};

template <>
struct EnumNames<RecomputeMethod> {
  static constexpr std::array<std::pair<RecomputeMethod, std::string_view>, 2> all{
      {{RecomputeMethod::uniform, "uniform"}, {RecomputeMethod::block, "block"}}};
};

template <>
struct EnumNames<EarlyRecompute> {
  static constexpr std::array<std::pair<EarlyRecompute, std::string_view>, 2> all{
      {{EarlyRecompute::no, "no"}, {EarlyRecompute::bubble, "bubble"}}};
};

template <>
struct EnumNames<WeightRecompute> {
  static constexpr std::array<std::pair<WeightRecompute, std::string_view>, 2> all{
      {{WeightRecompute::keep, "keep"}, {WeightRecompute::again, "again"}}};
};

}  // namespace stagecraft
