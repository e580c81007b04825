#include "libexec/kernels/operands/operand_checks.hpp"

#include <stdexcept>
#include <string>

namespace stagecraft {

void refuse(OpKind kind, char const* why) {
  throw std::logic_error(std::string(name_of(kind)).append(": ").append(why));
}

void expect_operands(KernelCall const& call) {
  OpKindTraits const& traits = traits_of(call.kind);
  expect(call, call.attributes.index() == traits.attributes,
         "its attributes are missing, or of another kind");
  expect(call, call.reads.size() >= traits.least_reads && call.reads.size() <= traits.most_reads,
         "an operand is missing or superfluous among those read");
  expect(call,
         call.writes.size() >= traits.least_writes && call.writes.size() <= traits.most_writes,
         "an operand is missing or superfluous among those written");
  for (std::size_t i = 0; i < call.writes.size() && i < traits.in_place.size(); ++i) {
    if (traits.in_place[i] < 0) continue;
    Operand const& from = call.reads[static_cast<std::size_t>(traits.in_place[i])];
    Operand const& to = call.writes[i];
    expect(call, from.data == to.data && from.type == to.type && from.shape == to.shape,
           "an operand that is updated in place differs between reads and writes");
  }
}

bool is_contiguous(Operand const& operand) {
  if (operand.strides.rank() == 0) return true;
  std::int64_t expected = 1;
  for (int axis = operand.shape.rank() - 1; axis >= 0; --axis) {
    if (operand.shape[axis] != 1 && operand.strides[axis] != expected) return false;
    expected *= operand.shape[axis];
  }
  return true;
}

void expect_tensor(KernelCall const& call,
                   Operand const& operand,
                   ElementType type,
                   Shape const& shape) {
  expect(call, operand.shape == shape, "an operand's shape does not fit the others");
  expect_elements(call, operand, type, shape.elements());
}

void expect_elements(KernelCall const& call,
                     Operand const& operand,
                     ElementType type,
                     std::int64_t elements) {
  expect(call, operand.type == type, "an operand is of the wrong element type");
  expect(call, operand.shape.elements() == elements, "an operand has the wrong number of elements");
  expect(call, is_contiguous(operand), "an operand is a view, but must be contiguous");
  expect(call, operand.data != nullptr || elements == 0, "an operand has no address");
}

void expect_heads(KernelCall const& call,
                  Operand const& operand,
                  ElementType type,
                  Shape const& shape) {
  expect(call, operand.type == type, "an operand is of the wrong element type");
  expect(call, shape.rank() == 4 && operand.shape == shape,
         "an operand is not [s, b, heads, d] as the others are");
  expect(call, operand.stride(3) == 1 || shape[3] == 1,
         "the elements of a head are not contiguous");
  expect(call, operand.data != nullptr, "an operand has no address");
}

void expect_positions(KernelCall const& call,
                      Operand const& table,
                      std::int64_t rows,
                      SequencePart const& sequence) {
  expect(call, table.shape.rank() == 2 && table.shape[0] > sequence.row_of(rows - 1, rows),
         "too few positions");
}

}  // namespace stagecraft
