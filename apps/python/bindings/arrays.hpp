#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace stagecraft::python {

/// The numbers as an array of numpy, which takes them over without a copy.
template <typename Number>
nanobind::object numpy_array(std::vector<Number> numbers) {
  auto owned = std::make_unique<std::vector<Number>>(std::move(numbers));
  Number* const data = owned->data();
  std::size_t const size = owned->size();
  nanobind::capsule const owner{owned.release(), [](void* vector) noexcept {
                                  delete static_cast<std::vector<Number>*>(vector);
                                }};
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, Number, nanobind::ndim<1>>{data, {size}, owner});
}

}  // namespace stagecraft::python
