#include "libexec/calibration/gemm_measurement.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "libexec/backends/random_numbers.hpp"
#include "libexec/calibration/sample_statistics.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::int64_t, 5> extents{8, 32, 128, 512, 1024};
constexpr int fewest_calls = 3;
constexpr int most_calls = 50;
constexpr double enough_seconds = 0.01;

/// Random numbers on the device, of which each product takes others: in a model the operands are
/// not in the cache either, because other kernels ran since they were written.
class OperandPool {
 public:
  OperandPool(Backend& backend, Precision precision)
      : backend_{backend},
        type_{activation_type(precision)},
        accumulated_{gradient_type(precision)} {
    data_ = static_cast<std::byte*>(backend.allocate(size));
    RandomNumbers{type_, 1}.write(backend, data_, size);
  }
  ~OperandPool() { backend_.deallocate(data_, size); }
  OperandPool(OperandPool const&) = delete;
  OperandPool(OperandPool&&) = delete;
  OperandPool& operator=(OperandPool const&) = delete;
  OperandPool& operator=(OperandPool&&) = delete;

  KernelCall next(GemmShape const& gemm) {
    KernelCall call;
    call.kind = OpKind::gemm;
    call.gemm = gemm;
    call.reads.push_back(
        take(type_, gemm.transpose_a ? Shape{gemm.k, gemm.m} : Shape{gemm.m, gemm.k}));
    call.reads.push_back(
        take(type_, gemm.transpose_b ? Shape{gemm.n, gemm.k} : Shape{gemm.k, gemm.n}));
    call.writes.push_back(take(gemm.accumulate ? accumulated_ : type_, Shape{gemm.m, gemm.n}));
    return call;
  }

 private:
  static constexpr std::size_t size = std::size_t{96} << 20;  ///< beyond most caches
  static constexpr std::size_t alignment = 64;

  Operand take(ElementType type, Shape const& shape) {
    auto const bytes = static_cast<std::size_t>(shape.elements() * element_size(type));
    if (next_ + bytes > size) next_ = 0;
    Operand const operand{.data = data_ + next_, .type = type, .shape = shape, .strides = {}};
    next_ += (bytes + alignment - 1) / alignment * alignment;
    return operand;
  }

  Backend& backend_;
  ElementType type_;
  ElementType accumulated_;
  std::byte* data_ = nullptr;
  std::size_t next_ = 0;
};

double seconds_of(Backend& backend,
                  OperandPool& pool,
                  VirtualClock const& clock,
                  GemmShape const& gemm) {
  backend.run(pool.next(gemm));  // the library's buffers
  std::vector<double> times;
  double sum = 0;
  while (times.size() < fewest_calls || (sum < enough_seconds && times.size() < most_calls)) {
    KernelCall const call = pool.next(gemm);
    SimTime const begin = clock.stopwatch();
    backend.run(call);
    times.push_back(to_seconds(clock.stopwatch() - begin));
    sum += times.back();
  }
  return median(times);
}

}  // namespace

std::map<GemmForm, GemmGrid> measure_gemm(Backend& backend,
                                          Precision precision,
                                          VirtualClock const& clock) {
  constexpr std::array forms{GemmForm::nt, GemmForm::nn, GemmForm::tn};
  OperandPool pool{backend, precision};
  std::map<GemmForm, GemmGrid> measured;
  for (GemmForm const form : forms) {
    GemmGrid& grid = measured[form];
    grid.m.assign(extents.begin(), extents.end());
    grid.n = grid.m;
    grid.k = grid.m;
    for (std::int64_t const m : extents) {
      for (std::int64_t const n : extents) {
        for (std::int64_t const k : extents) {
          GemmShape const gemm{.batch = 1,
                               .m = m,
                               .n = n,
                               .k = k,
                               .transpose_a = form == GemmForm::tn,
                               .transpose_b = form == GemmForm::nt,
                               .accumulate = form == GemmForm::tn};
          double const seconds = seconds_of(backend, pool, clock, gemm);
          grid.rates.push_back({static_cast<double>(gemm.flops()) / seconds});
        }
      }
    }
  }
  return measured;
}

}  // namespace stagecraft
