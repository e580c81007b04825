#include "libsim/program/tensor.hpp"

#include <stdexcept>

namespace stagecraft {

std::string to_string(Name const& name) {
  std::string text{name.owner};
  if (!name.part.empty()) text.append(".").append(name.part);
  return text;
}

ElementType activation_type(Precision precision) {
  switch (precision) {
    case Precision::fp16:
      return ElementType::f16;
    case Precision::bf16:
      return ElementType::bf16;
    case Precision::fp32:
      return ElementType::f32;
    case Precision::fp64:
      return ElementType::f64;
  }
  return ElementType::f16;
}

Precision precision_of(ElementType type) {
  switch (type) {
    case ElementType::f16:
      return Precision::fp16;
    case ElementType::bf16:
      return Precision::bf16;
    case ElementType::f32:
      return Precision::fp32;
    case ElementType::f64:
      return Precision::fp64;
    case ElementType::u8:
    case ElementType::i32:
    case ElementType::i64:
    case ElementType::f8_e4m3:
    case ElementType::f8_e5m2:
    case ElementType::f4_e2m1:
      break;
  }
  throw std::invalid_argument{"activations are not of type " + std::string{name_of(type)}};
}

ElementType accumulation_type(Precision precision) {
  return precision == Precision::fp64 ? ElementType::f64 : ElementType::f32;
}

}  // namespace stagecraft
