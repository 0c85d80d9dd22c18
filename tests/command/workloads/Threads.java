// Threads that fill maps and memory outside the heap, and a process of theirs. Argument: tasks.

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;

public class Threads {
    static long task(int number) {
        Map<String, byte[]> map = new HashMap<>();
        for (int i = 0; i < 2000; i++) map.put("key " + i * number, new byte[i % 500]);
        ByteBuffer outside = ByteBuffer.allocateDirect(1 << 16);
        while (outside.hasRemaining()) outside.put((byte) (outside.position() * number));
        outside.flip();
        Deflater deflater = new Deflater();
        deflater.setInput(outside);
        deflater.finish();
        byte[] packed = new byte[1 << 17];
        CRC32 sum = new CRC32();
        sum.update(packed, 0, deflater.deflate(packed));
        deflater.end();
        return sum.getValue() + map.size();
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(6);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 1; i <= Integer.parseInt(arguments[0]); i++) {
            int number = i;
            results.add(threads.submit(() -> task(number)));
        }
        for (Future<Long> result : results) System.out.println(result.get());
        threads.shutdown();
        Process other = new ProcessBuilder("echo", "another process").start();
        System.out.print(new String(other.getInputStream().readAllBytes()));
    }
}
