#include <algorithm>
#include <vector>

#include "libexec/backends/numbers.hpp"
#include "libexec/calibration/kernel_measurement.hpp"
#include "libexec/calibration/measurement.hpp"

namespace stagecraft {
namespace {

constexpr int fewest_calls = 3;
constexpr int most_calls = 50;
constexpr double enough_seconds = 0.01;
constexpr int queues = 3;
// A choice: a queue is long beside the launch of its first product, which a mark includes, and
// short beside the time in which a device that draws too much lowers its clock.
constexpr double queue_seconds = 0.001;
/// The least time of a load, as a multiple of that of a queue. A choice: products are a quarter of
/// the time at most, so that power is nearly that of layers. A load is whole layers, so that before
/// a queue shorter than a third of a layer it is longer.
constexpr double load_share = 3;

/// Random numbers on the device, of which each product takes different ones: in a model the
/// operands are not in the cache either, because other kernels ran since they were written. Results
/// are never operands: products of products would soon be infinite.
class OperandPool {
 public:
  OperandPool(Backend& backend, Precision precision, std::size_t bytes)
      : operands_{backend, activation_type(precision), bytes},
        results_{backend, activation_type(precision), bytes},
        sums_{backend, accumulation_type(precision), bytes} {}

  KernelCall next(GemmShape const& gemm) {
    KernelCall call;
    call.kind = OpKind::gemm;
    call.reads.push_back(gemm.transpose_a ? operands_.take(gemm.batch, gemm.k, gemm.m)
                                          : operands_.take(gemm.batch, gemm.m, gemm.k));
    call.reads.push_back(gemm.transpose_b ? operands_.take(gemm.batch, gemm.n, gemm.k)
                                          : operands_.take(gemm.batch, gemm.k, gemm.n));
    call.writes.push_back((gemm.accumulate ? sums_ : results_).take(gemm.batch, gemm.m, gemm.n));
    call.attributes = GemmAttributes{gemm, call.writes[0].type};
    return call;
  }

 private:
  /// Memory whose parts are used in turn.
  class Ring {
   public:
    Ring(Backend& backend, ElementType type, std::size_t bytes)
        : backend_{backend}, type_{type}, bytes_{bytes} {
      data_ = static_cast<std::byte*>(backend.allocate(bytes));
      RandomNumbers{type, 1}.write(backend, data_, bytes);
    }
    ~Ring() { backend_.deallocate(data_, bytes_); }
    Ring(Ring const&) = delete;
    Ring(Ring&&) = delete;
    Ring& operator=(Ring const&) = delete;
    Ring& operator=(Ring&&) = delete;

    Operand take(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
      constexpr std::size_t alignment = 256;
      Shape const shape =
          batch == 1 ? Shape{rows, columns} : Shape{std::int64_t{1}, batch, rows, columns};
      auto const bytes = static_cast<std::size_t>(shape.elements() * element_size(type_));
      if (next_ + bytes > bytes_) next_ = 0;
      Operand const operand{.data = data_ + next_, .type = type_, .shape = shape, .strides = {}};
      next_ += (bytes + alignment - 1) / alignment * alignment;
      return operand;
    }

   private:
    Backend& backend_;
    ElementType type_;
    std::size_t bytes_;
    std::byte* data_ = nullptr;
    std::size_t next_ = 0;
  };

  Ring operands_;
  Ring results_;
  Ring sums_;
};

std::vector<double> one_by_one(Backend& backend,
                               OperandPool& pool,
                               VirtualClock const& clock,
                               GemmShape const& gemm) {
  backend.run(pool.next(gemm));  // lets the library allocate its buffers
  std::vector<double> times;
  double sum = 0;
  while (times.size() < fewest_calls || (sum < enough_seconds && times.size() < most_calls)) {
    KernelCall const call = pool.next(gemm);
    SimTime const begin = clock.stopwatch();
    backend.run(call);
    times.push_back(to_seconds(clock.stopwatch() - begin));
    sum += times.back();
  }
  return times;
}

/// A device that computes nothing but products reaches the limit of its power and slows down, an
/// H200 by a sixth (experiments/gpu/results), which it does not in a layer. So it runs layers most
/// of the time, and their clock is that of the products.
std::vector<double> on_device(Backend& backend,
                              OperandPool& pool,
                              DeviceLoad const& load,
                              GemmShape const& gemm) {
  auto const products = [&](int calls) {
    return queued_seconds(backend, [&] {
      for (int i = 0; i < calls; ++i) backend.run(pool.next(gemm));
    });
  };
  // First the library chooses an algorithm, then the number of calls per queue is determined.
  products(1);
  double const once = products(fewest_calls) / fewest_calls;
  int const calls = std::clamp(static_cast<int>(queue_seconds / once), 1, most_calls);
  std::vector<double> times;
  times.reserve(queues);
  for (int i = 0; i < queues; ++i) {
    if (load) load(load_share * calls * once);
    times.push_back(products(calls) / calls);
  }
  return times;
}

/// Measures the rates of one form on a grid with these extents on each axis.
template <typename SecondsOf>
GemmGrid measure_grid(GemmForm form,
                      std::vector<std::int64_t> const& extents,
                      std::int64_t batch,
                      SecondsOf const& seconds_of_gemm) {
  GemmGrid grid{.m = extents, .n = extents, .k = extents, .rates = {}};
  GemmForm const one = without_batch(form);
  for (std::int64_t const m : extents) {
    for (std::int64_t const n : extents) {
      for (std::int64_t const k : extents) {
        GemmShape const gemm{.batch = batch,
                             .m = m,
                             .n = n,
                             .k = k,
                             .transpose_a = one == GemmForm::tn,
                             .transpose_b = one == GemmForm::nt,
                             .accumulate = form == GemmForm::tn};  // batches have no parameters
        grid.rates.push_back({static_cast<double>(gemm.flops()) / seconds_of_gemm(gemm)});
      }
    }
  }
  return grid;
}

}  // namespace

void measure_gemm(Backend& backend,
                  Precision precision,
                  MeasurementScale const& scale,
                  VirtualClock const& clock,
                  SteadyMedians& medians,
                  std::function<void(GemmForm, GemmGrid)> const& take,
                  DeviceLoad const& load) {
  OperandPool pool{backend, precision, scale.operand_bytes};
  bool const is_queued = backend.timeline() != nullptr;
  auto const seconds = [&](GemmShape const& gemm) {
    return medians.of([&] {
      return is_queued ? on_device(backend, pool, load, gemm)
                       : one_by_one(backend, pool, clock, gemm);
    });
  };
  for (GemmForm const form : {GemmForm::nt, GemmForm::nn, GemmForm::tn}) {
    take(form, measure_grid(form, scale.extents, 1, seconds));
  }
  if (scale.batched_extents.empty()) return;
  for (GemmForm const form : {GemmForm::batched_nt, GemmForm::batched_nn, GemmForm::batched_tn}) {
    take(form, measure_grid(form, scale.batched_extents, scale.batch, seconds));
  }
}

}  // namespace stagecraft
