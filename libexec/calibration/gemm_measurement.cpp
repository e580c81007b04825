#include "libexec/calibration/gemm_measurement.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "libexec/executor/number_codec.hpp"
#include "libexec/kernels/philox.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::int64_t, 5> extents{8, 32, 128, 512, 1024};
constexpr int fewest_calls = 3;
constexpr int most_calls = 50;
constexpr double enough_seconds = 0.01;

/// Device memory that is released when it goes out of scope.
class Matrix {
 public:
  Matrix(Backend& backend, ElementType type, Shape shape)
      : backend_{backend}, operand_{.type = type, .shape = shape, .strides = {}} {
    std::vector<double> numbers(static_cast<std::size_t>(shape.elements()));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      PhiloxBlock const words = philox({{static_cast<std::uint32_t>(i), 0, 0, 0}}, 1, 2);
      numbers[i] = words.word[0] * 0x1p-32 - 0.5;
    }
    std::vector<std::byte> const bytes = encode(numbers, type);
    bytes_ = bytes.size();
    operand_.data = backend.allocate(bytes_);
    backend.write(operand_.data, bytes.data(), bytes_);
  }
  ~Matrix() { backend_.deallocate(operand_.data, bytes_); }
  Matrix(Matrix const&) = delete;
  Matrix& operator=(Matrix const&) = delete;
  Operand const& operand() const { return operand_; }

 private:
  Backend& backend_;
  Operand operand_;
  std::size_t bytes_ = 0;
};

double seconds_of(Backend& backend,
                  VirtualClock const& clock,
                  Precision precision,
                  GemmShape const& gemm) {
  ElementType const type = activation_type(precision);
  Matrix const a{backend, type, gemm.transpose_a ? Shape{gemm.k, gemm.m} : Shape{gemm.m, gemm.k}};
  Matrix const b{backend, type, gemm.transpose_b ? Shape{gemm.n, gemm.k} : Shape{gemm.k, gemm.n}};
  Matrix const c{backend, gemm.accumulate ? gradient_type(precision) : type, Shape{gemm.m, gemm.n}};
  KernelCall call;
  call.kind = OpKind::gemm;
  call.gemm = gemm;
  call.reads.push_back(a.operand());
  call.reads.push_back(b.operand());
  call.writes.push_back(c.operand());
  backend.run(call);  // warms caches and the library's buffers
  std::vector<double> times;
  double sum = 0;
  while (times.size() < fewest_calls || (sum < enough_seconds && times.size() < most_calls)) {
    SimTime const begin = clock.stopwatch();
    backend.run(call);
    times.push_back(to_seconds(clock.stopwatch() - begin));
    sum += times.back();
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

std::map<GemmForm, GemmGrid> measure_gemm(Backend& backend,
                                          Precision precision,
                                          VirtualClock const& clock) {
  constexpr std::array forms{GemmForm::nt, GemmForm::nn, GemmForm::tn};
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
          double const seconds = seconds_of(backend, clock, precision, gemm);
          grid.rates.push_back({static_cast<double>(gemm.flops()) / seconds});
        }
      }
    }
  }
  return measured;
}

}  // namespace stagecraft
