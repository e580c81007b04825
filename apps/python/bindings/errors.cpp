#include "apps/python/bindings/errors.hpp"

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/python/bindings/text_caster.hpp"
#include "libsim/config/problem.hpp"

namespace stagecraft::python {

namespace nb = nanobind;

namespace {

nb::object errors_module() { return nb::module_::import_("stagecraft._errors"); }

void set_error(char const* type, nb::object const& error) {
  PyErr_SetObject(errors_module().attr(type).ptr(), error.ptr());
}

nb::object text_or_none(std::string const& text) {
  return text.empty() ? nb::object{nb::none()} : python_text(text);
}

nb::object number_or_none(int number) {
  return number == 0 ? nb::object{nb::none()} : nb::object{nb::int_(number)};
}

nb::object as_python(Problem const& problem) {
  return errors_module().attr("Problem")(
      text_or_none(problem.place.origin ? *problem.place.origin : std::string{}),
      number_or_none(problem.place.line), number_or_none(problem.place.column),
      text_or_none(problem.key), text_or_none(problem.found), text_or_none(problem.accepted));
}

void set_config_error(std::string const& message, std::vector<Problem> const& problems) {
  nb::list list;
  for (Problem const& problem : problems) list.append(as_python(problem));
  set_error("ConfigError", errors_module().attr("ConfigError")(python_text(message), list));
}

}  // namespace

void register_errors() {
  nb::register_exception_translator([](std::exception_ptr const& thrown, void* /*unused*/) {
    try {
      std::rethrow_exception(thrown);
    } catch (ConfigError const& error) {
      set_config_error(error.what(), error.problems());
    } catch (CommandLineError const& error) {
      set_config_error(error.what(), {error.problem()});
    } catch (DoesNotFit const& error) {
      set_error("DoesNotFit", python_text(error.what()));
    } catch (nb::builtin_exception const&) {
      throw;
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::exception const& error) {
      set_error("Error", python_text(error.what()));
    }
  });
}

}  // namespace stagecraft::python
