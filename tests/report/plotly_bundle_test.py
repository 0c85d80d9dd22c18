"""The part of the plotting library that a page carries."""

from __future__ import annotations

import sys
import unittest

sys.dont_write_bytecode = True

from case import has_plotly  # noqa: E402
from espalier_report import plotly_bundle  # noqa: E402


class Library(unittest.TestCase):
    TABLE = ("/* Copyright someone */\n(function(){var x;return r})()"
             + plotly_bundle.HEAD
             + "'use strict'; // kept\n  // dropped\n  module.exports = 'bar';\n"
             + "},{}],2:[function(_dereq_,module,exports){\nmodule.exports = 'unused';\n"
             + "},{}],3:[function(_dereq_,module,exports){\n/* dropped\n   too */\ncore();\n"
             + "},{\"./dep\":4}],4:[function(_dereq_,module,exports){\n"
             + "/* MIT License */\nvar s = '/* text */';\n"
             + "},{}],5:[function(_dereq_,module,exports){\nall();\n"
             + "},{\"./bar\":1,\"./core\":3,\"./other\":2}]},{},[5])(5)\n});\n")

    def test_keeps_what_is_reached_and_drops_the_rest(self) -> None:
        reduced = plotly_bundle.reduced(self.TABLE) or ""
        for kept in ("'bar'", "core();", "'/* text */'", "MIT License", "Copyright someone",
                     "'use strict'; // kept", "_dereq_('./core')", "},{},[5])(5)\n});"):
            self.assertIn(kept, reduced)
        for gone in ("unused", "all();", "dropped"):
            self.assertNotIn(gone, reduced)

    def test_another_form_is_left_whole(self) -> None:
        for other in ("", "!function(){minified()}();", self.TABLE.replace("],4:[", "],9:["),
                      self.TABLE.replace("./bar", "./baz"),
                      self.TABLE.replace('"./dep":4', '"./dep":77')):
            self.assertIsNone(plotly_bundle.reduced(other))

    def test_a_file_that_pages_share_tells_its_version(self) -> None:
        self.assertEqual(plotly_bundle.file_name("/**\n* plotly.js v2.35.2\n*/"), "plotly-2.35.2.js")
        self.assertEqual(plotly_bundle.file_name("something else"), "plotly.js")

    def test_cannot_end_its_script_element(self) -> None:
        self.assertEqual(plotly_bundle.as_inline_script("'</script><!--'"),
                         "'<\\/script><\\!--'")

    @unittest.skipUnless(has_plotly(), "plotly.js is not installed")
    def test_the_installed_one_fits_a_mail(self) -> None:
        source = plotly_bundle.load()
        self.assertLess(len(source), 5_000_000)
        self.assertIn("plotly.js v", source)
        self.assertNotIn("</script", source)


if __name__ == "__main__":
    unittest.main()
