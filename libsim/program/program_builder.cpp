#include "libsim/program/program_builder.hpp"

#include <cassert>
#include <cstddef>
#include <utility>

namespace stagecraft {

ProgramBuilder::ProgramBuilder(BlockProgram::Kind kind, BlockShape const& shape)
    : ProgramBuilder{kind, std::vector{shape}} {}

ProgramBuilder::ProgramBuilder(BlockProgram::Kind kind, std::vector<BlockShape> shapes)
    : shapes_{std::move(shapes)} {
  program_.kind = kind;
  program_.prediction_modules = static_cast<int>(shapes_.size()) - 1;
  reserve();
}

ProgramBuilder::ProgramBuilder(std::vector<BlockShape> layers) : shapes_{std::move(layers)} {
  program_.kind = BlockProgram::Kind::layers;
  program_.layers = static_cast<int>(shapes_.size());
  reserve();
}

void ProgramBuilder::reserve() {
  std::size_t const layers = shapes_.size();
  program_.tensors.reserve(96 * layers);
  program_.forward.reserve(48 * layers);
  program_.backward.reserve(96 * layers);
}

void ProgramBuilder::begin(Pass pass, std::string_view module, int layer) {
  pass_ = pass;
  module_ = module;
  layer_ = layer;
}

TensorId ProgramBuilder::make(Name name, Shape shape, ElementType type, Category category) {
  auto const id = static_cast<TensorId>(program_.tensors.size());
  Tensor& made = program_.tensors.emplace_back();
  made.name = name;
  made.layer = layer_;
  made.type = type;
  made.category = category;
  made.shape = shape;
  made.buffer = id;
  return id;
}

TensorId ProgramBuilder::uses_rows(TensorId id, std::int64_t rows) {
  if (rows == tensor(id).shape[0]) return id;
  used_rows_.resize(program_.tensors.size());
  used_rows_[static_cast<std::size_t>(id)] = rows;
  return id;
}

TensorId ProgramBuilder::of_experts(TensorId id) {
  if (shape().expected_rows() == shape().received_rows()) return id;
  // A tensor has more rows than are received only after a gather.
  std::int64_t const per_received = tensor(id).shape[0] / shape().received_rows();
  return uses_rows(id, per_received * shape().expected_rows());
}

bool ProgramBuilder::has_unused_rows(TensorId id) const {
  auto const index = static_cast<std::size_t>(id);
  return index < used_rows_.size() && used_rows_[index] > 0;
}

Bytes ProgramBuilder::moved_bytes(TensorId id) const {
  Bytes const all = tensor(id).bytes();
  if (!has_unused_rows(id)) return all;
  return Bytes{all.count() / tensor(id).shape[0] * used_rows_[static_cast<std::size_t>(id)]};
}

TensorId ProgramBuilder::view(
    Name name, TensorId base, Shape shape, Shape strides, std::int64_t offset) {
  Tensor const& owner = tensor(base);
  assert(owner.buffer == base);
  TensorId const id = make(name, shape, owner.type, owner.category);
  Tensor& made = program_.tensors.back();
  made.buffer = base;
  made.strides = strides;
  made.offset = offset;
  return id;
}

TensorId ProgramBuilder::parameter(Name name, Shape shape, ParameterTraits traits) {
  TensorId const weight = make(name, shape, type(), Category::parameters);
  program_.tensors.back().lifetime = Lifetime::job;
  TensorId const gradient = make(
      name, shape,
      this->shape().narrow_gradients ? type() : accumulation_type(this->shape().model.precision),
      Category::gradients);
  program_.tensors.back().lifetime = Lifetime::job;
  program_.parameters.push_back({std::move(traits), weight, gradient});
  return weight;
}

TensorId ProgramBuilder::counter(Name name, Shape shape) {
  TensorId const id =
      make(name, shape, accumulation_type(this->shape().model.precision), Category::gradients);
  program_.tensors.back().lifetime = Lifetime::job;
  program_.counters.push_back(id);
  return id;
}

// parameter() makes the two tensors one after the other.
TensorId ProgramBuilder::gradient_of(TensorId weight) const { return weight + 1; }

Op& ProgramBuilder::add(OpKind kind,
                        Name name,
                        Phase phase,
                        TensorList reads,
                        TensorList writes,
                        OpAttributes attributes) {
  Op& op = program_.ops(pass_).emplace_back();
  op.kind = kind;
  op.name = name;
  op.phase = phase;
  op.module = module_;
  op.layer = layer_;
  op.reads = reads;
  op.writes = writes;
  op.attributes = attributes;
  op.type = type();
  for (TensorId const id : reads) op.traffic += moved_bytes(id);
  for (TensorId const id : writes) op.traffic += moved_bytes(id);
  return op;
}

Op& ProgramBuilder::gemm(
    Name name, Phase phase, GemmShape const& gemm, TensorId a, TensorId b, TensorId c) {
  return product(OpKind::gemm, name, phase, gemm, a, b, c);
}

Op& ProgramBuilder::grouped_gemm(Name name,
                                 Phase phase,
                                 GemmShape const& gemm,
                                 TensorId a,
                                 TensorId b,
                                 TensorId c,
                                 TensorId counts) {
  Op& op = product(OpKind::grouped_gemm, name, phase, gemm, a, b, c);
  op.reads.push_back(counts);
  return op;
}

Op& ProgramBuilder::product(OpKind kind,
                            Name name,
                            Phase phase,
                            GemmShape const& gemm,
                            TensorId a,
                            TensorId b,
                            TensorId c) {
  bool const is_low = is_quantised(tensor(a).type);
  Op& op = add(
      kind, name, phase, {a, b}, {c},
      GemmAttributes{.shape = gemm,
                     .output = tensor(c).type,
                     .a = tensor(a).type,
                     .b = tensor(b).type,
                     .scaling = is_low ? shape().quantisation.traits().scaling : Scaling::none});
  if (!is_low) op.type = tensor(a).type;
  if (gemm.accumulate) op.traffic += tensor(c).bytes();
  op.flops = gemm.flops();
  return op;
}

Op& ProgramBuilder::collective(OpKind kind,
                               Name name,
                               Phase phase,
                               TensorId from,
                               TensorId to,
                               TensorId whole,
                               GroupId group) {
  Op& op = add(kind, name, phase, {from}, {to});
  op.stream = Stream::tensor_parallel;
  op.group = group;
  op.payload = moved_bytes(whole);
  if (kind == OpKind::all_to_all) op.attributes = ExchangeAttributes{};
  return op;
}

Op* ProgramBuilder::collective(OpKind kind,
                               Name name,
                               Phase phase,
                               TensorId from,
                               TensorId to,
                               TensorId whole,
                               Overlap overlap) {
  if (shape().tensor == 1) return nullptr;
  Op& op = collective(kind, name, phase, from, to, whole, shape().tensor_group);
  op.asynchronous = overlap == Overlap::behind_compute;
  return &op;
}

}  // namespace stagecraft
