#include "libsim/model/op.hpp"

namespace stagecraft {

std::string_view name_of(Stream stream) {
  switch (stream) {
    case Stream::compute:
      return "compute";
    case Stream::tensor_parallel:
      return "tensor_parallel";
    case Stream::data_parallel:
      return "data_parallel";
    case Stream::send:
      return "send";
    case Stream::receive:
      return "receive";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::recompute:
      return "recompute";
    case Phase::input_gradient:
      return "input_gradient";
    case Phase::weight_gradient:
      return "weight_gradient";
    case Phase::data_parallel:
      return "data_parallel";
    case Phase::optimizer:
      return "optimizer";
  }
  return "?";
}

}  // namespace stagecraft
