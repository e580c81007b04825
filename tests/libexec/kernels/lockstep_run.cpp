#include "tests/libexec/kernels/lockstep_run.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> allocations_so_far{0};
}  // namespace

void* operator new(std::size_t size, std::nothrow_t const& /*tag*/) noexcept {
  allocations_so_far.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new(std::size_t size) {
  if (void* const memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc{};
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace stagecraft::test {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

LockstepRun::LockstepRun(BlockProgram const& program,
                         BlockShape const& shape,
                         CpuKernelOptions const& options)
    : program_{&program}, shape_{shape} {
  for (int rank = 0; rank < shape.tensor; ++rank) {
    tensors_.emplace_back();
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
      Tensor const& tensor = program.tensors[i];
      bool const is_view = at(tensor.buffer) != i;
      tensors_.back().emplace_back(tensor.type, is_view ? Shape{0} : tensor.shape);
    }
    kernels_.push_back(
        std::make_unique<CpuKernels>(needs_of({.shape = shape, .tensor_rank = rank}), options));
  }
  fill_inputs();
}

TestTensor& LockstepRun::tensor(int rank, TensorId id) { return tensors_[at(rank)][at(id)]; }

std::int64_t LockstepRun::whole_elements(Parameter const& parameter) const {
  return padded_rows(parameter) * parameter.whole_columns;
}

std::int64_t LockstepRun::padded_rows(Parameter const& parameter) const {
  std::int64_t rows = 0;
  for (RowSegment const& segment : parameter.segments) {
    std::int64_t last = segment.first;
    for (AxisShare const& share : segment.shares) {
      last += (shape_.tensor - 1) / share.replicas * share.stride;
    }
    rows = std::max(rows, last + segment.rows);
  }
  return rows;
}

std::int64_t LockstepRun::whole_element(Parameter const& parameter,
                                        int rank,
                                        std::int64_t i) const {
  Shape const& local = program_->tensor(parameter.weight).shape;
  std::int64_t const columns = local.rank() == 2 ? local[1] : 1;
  std::int64_t row = i / columns;
  std::int64_t column = i % columns;
  for (AxisShare const& share : parameter.column_shares) column += rank * share.stride;
  for (RowSegment const& segment : parameter.segments) {
    if (row < segment.rows) {
      row += segment.first;
      for (AxisShare const& share : segment.shares) row += rank / share.replicas * share.stride;
      return row * parameter.whole_columns + column;
    }
    row -= segment.rows;
  }
  return -1;
}

void LockstepRun::fill_inputs() {
  unsigned seed = 100;
  for (Parameter const& parameter : program_->parameters) {
    TestTensor const whole =
        TestTensor::random(ElementType::f64, {whole_elements(parameter)}, ++seed);
    for (int rank = 0; rank < shape_.tensor; ++rank) {
      TestTensor& share = tensor(rank, parameter.weight);
      for (std::int64_t i = 0; i < share.size(); ++i) {
        share.set(i, whole[whole_element(parameter, rank, i)] * 0.3);
      }
      TestTensor& gradient = tensor(rank, parameter.gradient);
      gradient = TestTensor::zeros(gradient.type(), gradient.shape());
    }
  }
  for (TensorId const id : {program_->input, program_->grad_output}) {
    ++seed;
    if (id == no_tensor) continue;
    std::int64_t const elements = shape_.model.sequence * shape_.micro * shape_.model.hidden;
    TestTensor const whole = TestTensor::random(ElementType::f64, {elements}, seed);
    for (int rank = 0; rank < shape_.tensor; ++rank) {
      TestTensor& share = tensor(rank, id);
      std::int64_t const first = shape_.sequence_parallel ? rank * share.size() : 0;
      for (std::int64_t i = 0; i < share.size(); ++i) share.set(i, whole[first + i]);
    }
  }
}

Operand LockstepRun::operand(int rank, TensorId id) {
  Tensor const& described = program_->tensor(id);
  TestTensor& buffer = tensor(rank, described.buffer);
  return described.buffer == id ? buffer.operand()
                                : buffer.view(described.shape, described.strides, described.offset);
}

void LockstepRun::run(Pass pass) {
  for (Op const& op : program_->ops(pass)) run_op(op);
}

void LockstepRun::run_op(Op const& op) {
  switch (op.kind) {
    case OpKind::hold:
    case OpKind::wait:
      return;
    case OpKind::all_reduce:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
      return run_collective(op);
    case OpKind::load_tokens:
    case OpKind::load_labels:
      for (int rank = 0; rank < shape_.tensor; ++rank) {
        TestTensor& ids = tensor(rank, op.writes[0]);
        for (std::int64_t i = 0; i < ids.size(); ++i) {
          ids.set(i, static_cast<double>((i * 17 + 3) % shape_.model.vocabulary));
        }
      }
      return;
    default:
      break;
  }
  for (int rank = 0; rank < shape_.tensor; ++rank) {
    KernelCall call;
    call.kind = op.kind;
    call.attributes = op.attributes;
    for (TensorId const id : op.reads) call.reads.push_back(operand(rank, id));
    for (TensorId const id : op.writes) call.writes.push_back(operand(rank, id));
    DropoutAttributes const* const dropout = dropout_of(op.attributes);
    DropoutSite const site = dropout != nullptr ? dropout->site : DropoutSite::embedding;
    call.draw = some_draw(site);
    call.loss_gradient = 0.5;
    std::int64_t const before = allocations_so_far.load();
    kernels_[at(rank)]->run(call);
    allocations_ += allocations_so_far.load() - before;
  }
}

void LockstepRun::run_collective(Op const& op) {
  int const t = shape_.tensor;
  TensorId const from = op.reads[0];
  TensorId const to = op.writes[0];
  std::int64_t const n = tensor(0, from).size();
  std::vector<double> whole;
  if (op.kind == OpKind::all_gather) {
    for (int rank = 0; rank < t; ++rank) {
      std::vector<double> const share = tensor(rank, from).values();
      whole.insert(whole.end(), share.begin(), share.end());
    }
  } else {
    whole = tensor(0, from).values();
    for (int rank = 1; rank < t; ++rank) {
      for (std::int64_t i = 0; i < n; ++i) {
        double const other = tensor(rank, from)[i];
        double& value = whole[at(i)];
        value = op.reduction == Reduction::maximum ? std::max(value, other) : value + other;
      }
    }
  }
  for (int rank = 0; rank < t; ++rank) {
    TestTensor& target = tensor(rank, to);
    std::int64_t const first = op.kind == OpKind::reduce_scatter ? rank * target.size() : 0;
    for (std::int64_t i = 0; i < target.size(); ++i) target.set(i, whole[at(first + i)]);
  }
}

std::vector<double> LockstepRun::whole_hidden(TensorId id) const {
  std::vector<double> whole;
  int const shares = shape_.sequence_parallel ? shape_.tensor : 1;
  for (int rank = 0; rank < shares; ++rank) {
    std::vector<double> const share = tensors_[at(rank)][at(id)].values();
    whole.insert(whole.end(), share.begin(), share.end());
  }
  return whole;
}

std::vector<double> LockstepRun::whole_gradient(std::size_t index) const {
  Parameter const& parameter = program_->parameters[index];
  std::vector<double> whole(at(whole_elements(parameter)));
  RowSegment const& segment = parameter.segments.front();
  bool const replicated = !segment.shares.empty() && segment.shares.front().replicas > 1;
  int const shares = replicated && !segment.gradient_sum ? 1 : shape_.tensor;
  for (int rank = 0; rank < shares; ++rank) {
    TestTensor const& share = tensors_[at(rank)][at(parameter.gradient)];
    for (std::int64_t i = 0; i < share.size(); ++i) {
      whole[at(whole_element(parameter, rank, i))] += share[i];
    }
  }
  return whole;
}

}  // namespace stagecraft::test
