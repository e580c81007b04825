#include "libsim/program/op_kind.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>

#include "libsim/modules/blocks.hpp"

namespace stagecraft::op_kind_test {
namespace {

ModelConfig small_model() {
  ModelConfig model;
  model.layers = 2;
  model.hidden = 64;
  model.heads = 4;
  model.kv_heads = 4;
  model.head_dim = 16;
  model.sequence = 32;
  model.vocabulary = 100;
  model.ffn_hidden = 256;
  return model;
}

/// Each op has as many operands as its kind's line names, and works in place on those it names
/// twice.
void require_contract(std::vector<Op> const& ops) {
  for (Op const& op : ops) {
    CAPTURE(name_of(op.kind), to_string(op.name));
    OpKindTraits const& traits = traits_of(op.kind);
    if (traits.op_class == OpClass::compute) REQUIRE(op.attributes.index() == traits.attributes);
    REQUIRE(op.reads.size() >= traits.least_reads);
    REQUIRE(op.reads.size() <= traits.most_reads);
    REQUIRE(op.writes.size() >= traits.least_writes);
    REQUIRE(op.writes.size() <= traits.most_writes);
    for (std::size_t i = 0; i < op.writes.size() && i < traits.in_place.size(); ++i) {
      if (traits.in_place[i] < 0) continue;
      REQUIRE(op.writes[i] == op.reads[static_cast<std::size_t>(traits.in_place[i])]);
    }
  }
}

}  // namespace

TEST_CASE("a kind's line says how many operands it has and which it works on in place", "[model]") {
  OpKindTraits const& softmax = traits_of(OpKind::causal_softmax_dropout_backward);
  REQUIRE(softmax.name == "causal_softmax_dropout_backward");
  REQUIRE(softmax.least_reads == 2);
  REQUIRE(softmax.most_reads == 3);
  REQUIRE(softmax.least_writes == 1);
  REQUIRE(softmax.most_writes == 1);
  REQUIRE(softmax.in_place[0] == 0);
  OpKindTraits const& rotary = traits_of(OpKind::rotary_backward);
  REQUIRE(rotary.in_place[0] == 0);
  REQUIRE(rotary.in_place[1] == 1);
  REQUIRE(traits_of(OpKind::gelu).in_place[0] == -1);
  REQUIRE(traits_of(OpKind::load_tokens).most_reads == 0);
  REQUIRE(traits_of(OpKind::hold).most_reads == OpKindTraits::unlimited);
}

TEST_CASE("a number that is not a kind has no traits", "[model]") {
  REQUIRE_THROWS_AS(traits_of(static_cast<OpKind>(op_kind_count)), std::out_of_range);
}

TEST_CASE("a list of fixed capacity says so when it is full", "[model]") {
  TensorList list{1, 2, 3, 4, 5, 6, 7, 8};
  list.push_back(no_tensor);
  REQUIRE(list.size() == 8);
  REQUIRE_THROWS_AS(list.push_back(9), std::length_error);
  REQUIRE_THROWS_AS((Shape{1, 2, 3, 4, 5}), std::length_error);
}

TEST_CASE("each kind has a name of its own", "[model]") {
  std::set<std::string_view> names;
  for (OpKind const kind : op_kinds) names.insert(name_of(kind));
  REQUIRE(names.size() == op_kind_count);
}

TEST_CASE("every op of a model's blocks has the operands of its kind's line", "[model]") {
  ModelConfig model = small_model();
  model.activation =
      GENERATE(Activation::gelu, Activation::swiglu, Activation::relu, Activation::geglu);
  model.attention = GENERATE(Attention::unfused, Attention::flash);
  model.softmax_dropout = GENERATE(SoftmaxDropout::separate, SoftmaxDropout::fused);
  model.dropout_mask = GENERATE(DropoutMask::stored, DropoutMask::regenerated);
  model.norm = GENERATE(Norm::layernorm, Norm::rmsnorm);
  model.positions = model.norm == Norm::rmsnorm ? Positions::rotary : Positions::learned;
  if (model.norm == Norm::rmsnorm) model.kv_heads = 2;
  RecomputePolicy policy;
  policy.granularity = GENERATE(RecomputeGranularity::none, RecomputeGranularity::full);
  BlockShape const shape{.model = model, .tensor = 2, .sequence_parallel = true, .micro = 2};
  for (BlockProgram const& block :
       {build_inputs(shape), build_embedding(shape), build_layers(shape, 2, policy),
        build_head(shape, HeadWeight::own)}) {
    require_contract(block.forward);
    require_contract(block.backward);
  }
}

}  // namespace stagecraft::op_kind_test
