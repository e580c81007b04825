#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace stagecraft::python {

/// A text as Python has it; bytes that are no UTF-8 become surrogates, as in os.fsdecode().
inline nanobind::object python_text(std::string_view text) {
  return nanobind::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

}  // namespace stagecraft::python

/// In place of nanobind/stl/string.h, which refuses paths that are no UTF-8.
template <>
struct nanobind::detail::type_caster<std::string> {
  NB_TYPE_CASTER(std::string, const_name("str"))

  bool from_python(handle source, std::uint8_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    Py_ssize_t size = 0;
    if (char const* const text = PyUnicode_AsUTF8AndSize(source.ptr(), &size)) {
      value.assign(text, static_cast<std::size_t>(size));
      return true;
    }
    PyErr_Clear();
    if (PyUnicode_Check(source.ptr()) == 0) return false;
    // It has surrogates: as os.fsencode() does.
    object const bytes = steal(PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogateescape"));
    char* begin = nullptr;
    if (!bytes.is_valid() || PyBytes_AsStringAndSize(bytes.ptr(), &begin, &size) != 0) {
      PyErr_Clear();
      return false;
    }
    value.assign(begin, static_cast<std::size_t>(size));
    return true;
  }

  static handle from_cpp(std::string const& text,
                         rv_policy /*policy*/,
                         cleanup_list* /*list*/) noexcept {
    return stagecraft::python::python_text(text).release();
  }
};
